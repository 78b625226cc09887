"""What tests/ray/tune.rs asks of Ray Tune: `python tune.py WHAT HOME`. It tests `pavlov_tune.py` of the folder HOME, or
the package `pavlov_rl` if there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path

what, home = sys.argv[1], Path(sys.argv[2])
sys.path.insert(0, str(home))
# Actors import the module too.
os.environ["PYTHONPATH"] = str(home)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Seconds from one state of a sweep on the disk to the next; results come there with it.
os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "1"

import ray
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, PopulationBasedTraining

if (home / "pavlov_tune.py").exists():
    from pavlov_tune import Pavlov
else:
    # The trainable of the Python package, which trains in the trial's own process.
    from pavlov_rl.tune import Trainable as Pavlov

LR = "info/learner/default_policy/learner_stats/cur_lr"
SPACE = {
    "algorithm": "PPO",
    "env": "CartPole-v1",
    "seed": 3,
    "num_workers": 0,
    "num_envs_per_worker": 4,
    "train_batch_size": 64,
    "sgd_minibatch_size": 32,
    "num_sgd_iter": 1,
    "model": {"fcnet_hiddens": [8]},
}
ITERATIONS = 150


def results(trial):
    """The last result of each iteration."""
    found = {}
    for line in (Path(trial.path) / "result.json").read_text().splitlines():
        result = json.loads(line)
        found[result["training_iteration"]] = result
    return [found[iteration] for iteration in sorted(found)]


def lr(result):
    return result["info"]["learner"]["default_policy"]["learner_stats"]["cur_lr"]


def run_config(name, **settings):
    return tune.RunConfig(name=name, storage_path=str(home / "results"), verbose=0, **settings)


def asha():
    """One trial at a time, and the first has the best metric: the others are stopped at the first rung."""
    scheduler = AsyncHyperBandScheduler(time_attr="training_iteration", grace_period=2, max_t=8, reduction_factor=2)
    config = tune.TuneConfig(metric=LR, mode="max", scheduler=scheduler, max_concurrent_trials=1)
    space = {**SPACE, "lr": tune.grid_search([4e-3, 3e-3, 2e-3, 1e-3])}
    settings = run_config("asha", checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True))
    grid = tune.Tuner(Pavlov, param_space=space, tune_config=config, run_config=settings).fit()
    ends = {trial.config["lr"]: trial.metrics["training_iteration"] for trial in grid}
    assert ends == {4e-3: 8, 3e-3: 2, 2e-3: 2, 1e-3: 2}, ends
    assert all(lr(trial.metrics) == trial.config["lr"] for trial in grid)
    [saved] = Path(grid.get_best_result().checkpoint.path).glob("checkpoint_*")
    evaluate = [os.environ["PAVLOV"], "evaluate", str(saved), "--episodes", "1", "--json"]
    played = subprocess.run(evaluate, stdout=subprocess.PIPE, check=True)
    assert json.loads(played.stdout)["training_iteration"] == 8, played.stdout


def pbt():
    """The worse half takes the checkpoints and settings of the better one over, in new processes and in the same ones."""
    fresh, reused = (population(reuse_actors) for reuse_actors in [False, True])
    # A checkpoint carries the id of the run that wrote it.
    assert len({trial[0]["experiment_id"] for trial in fresh}) == 2
    assert len({trial[-1]["experiment_id"] for trial in fresh}) == 1, fresh
    # Which iterations a trial skips with the checkpoint of another, and which actors Ray reuses, is a matter of its timing.
    for trial in fresh + reused:
        assert all(lr(result) == result["config"]["lr"] for result in trial), trial
        assert trial[-1]["training_iteration"] == 6 and lr(trial[-1]) > 5e-3, trial


def population(reuse_actors):
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        quantile_fraction=0.5,
        resample_probability=0,
        synch=True,
        hyperparam_mutations={"lr": tune.loguniform(1e-4, 1e-1)},
    )
    config = tune.TuneConfig(metric=LR, mode="max", scheduler=scheduler, reuse_actors=reuse_actors)
    space = {**SPACE, "lr": tune.grid_search([1e-2, 1e-3])}
    settings = run_config(f"pbt-{reuse_actors}", stop={"training_iteration": 6})
    grid = tune.Tuner(Pavlov, param_space=space, tune_config=config, run_config=settings).fit()
    assert not grid.errors, grid.errors
    return [results(trial) for trial in grid]


def whole(name):
    """Trials that end after some seconds, and go on when their actor dies."""
    settings = run_config(
        name,
        stop={"training_iteration": ITERATIONS},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        failure_config=tune.FailureConfig(max_failures=-1),
    )
    space = {**SPACE, "lr": tune.grid_search([1e-2, 1e-3])}
    return tune.Tuner(Pavlov, param_space=space, run_config=settings).fit()


def restored():
    """The sweep `killed` goes on, and has the results of one that was not killed."""
    path = str(home / "results" / "killed")
    grid = tune.Tuner.restore(path, trainable=Pavlov, resume_unfinished=True).fit()
    assert not grid.errors, grid.errors
    calm = {trial.config["lr"]: results(trial) for trial in whole("calm")}
    for trial in grid:
        ours, theirs = results(trial), calm[trial.config["lr"]]
        assert [result["training_iteration"] for result in ours] == list(range(1, ITERATIONS + 1))
        for left, right in zip(ours, theirs, strict=True):
            for key in ["episode_reward_mean", "episodes_total", "timesteps_total", "info"]:
                # NaN is not equal to itself.
                assert repr(left[key]) == repr(right[key]), (key, left, right)


def refused():
    """The error of a trial is pavlov's sentence."""
    for space, said in [
        ({**SPACE, "clip_parm": 0.1}, "unknown setting `clip_parm`"),
        ({**SPACE, "env": "CartPol-v1"}, "CartPole"),
        ({"env": "CartPole-v1"}, "the settings of the trial have no `algorithm`"),
    ]:
        try:
            Pavlov.default_resource_request(space)
        except Exception as error:
            assert said in str(error), error
        else:
            raise AssertionError(f"{space} was taken")
    asked = Pavlov.default_resource_request({**SPACE, "num_workers": 3, "num_cpus_per_worker": 2})
    assert asked.bundles == [{"CPU": 7.0}], asked.bundles


ray.init(
    address="local",
    num_cpus=2,
    include_dashboard=False,
    object_store_memory=200 << 20,
    logging_level="error",
    _temp_dir=str(home / "r"),
)
{"asha": asha, "pbt": pbt, "killed": lambda: whole("killed"), "restored": restored, "refused": refused}[what]()
