"""The objectives of search.rs on Optuna's TPE: `python optuna_peer.py TRIALS SEEDS` with optuna==5.0.0.

Prints the regrets of each objective by seed as JSON.
"""

import json
import math
import sys

import optuna

assert optuna.__version__ == "5.0.0", optuna.__version__


def mixed(trial):
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    gamma = trial.suggest_float("gamma", 0.9, 0.9999)
    clip = trial.suggest_float("clip_param", 0.05, 0.5)
    epochs = trial.suggest_int("num_sgd_iter", 1, 30)
    activation = trial.suggest_categorical("activation", ["tanh", "relu", "elu"])
    return (
        (math.log10(lr) - math.log10(5e-4)) ** 2
        + ((gamma - 0.985) / 0.03) ** 2
        + ((clip - 0.2) / 0.15) ** 2
        + ((epochs - 10) / 10) ** 2
        + {"relu": 0.0, "tanh": 0.3, "elu": 0.6}[activation]
    )


def branin(trial):
    x, y = trial.suggest_float("x", -5, 10), trial.suggest_float("y", 0, 15)
    bowl = (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


ALPHA = [1.0, 1.2, 3.0, 3.2]
A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
P = [
    [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
    [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
    [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
    [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
]


def hartmann6(trial):
    x = [trial.suggest_float(f"x{index}", 0, 1) for index in range(6)]
    distances = [sum(a * (v - p) ** 2 for a, v, p in zip(row, x, centre)) for row, centre in zip(A, P)]
    return -sum(alpha * math.exp(-distance) for alpha, distance in zip(ALPHA, distances))


OBJECTIVES = [(mixed, 0.0), (branin, 0.397887357729739), (hartmann6, -3.322368011415512)]


def regret(objective, minimum, trials, seed):
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=trials)
    return study.best_value - minimum


def main(trials, seeds):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    regrets = [[regret(*objective, trials, seed) for seed in range(seeds)] for objective in OBJECTIVES]
    print(json.dumps(regrets))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
