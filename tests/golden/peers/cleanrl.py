"""Writes one update by CleanRL's scripts per case, as fixtures that `peers.rs` compares pavlov with.

Run it in a Python that has torch and gymnasium, with a checkout of https://github.com/vwxyzjn/cleanrl:
`python tests/golden/peers/cleanrl.py CHECKOUT`, or with names of files after it (`ppo`, `c51`) for those only. CleanRL is no library:
the classes of its scripts, and pieces of the text of their main programs, run as they are, on made-up rows. Only the widths of the
hidden layers are replaced by smaller ones, and minibatches are not shuffled.
"""

import pathlib
import re
import sys
import textwrap
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
from fixture import OBS, ROWS, array, case, commit, layers, move, numbers, step, write
from gymnasium import spaces

CHECKOUT = pathlib.Path(sys.argv[1])
VERSION = re.search('version = "(.+)"', (CHECKOUT / "pyproject.toml").read_text())[1]
LIBRARY = f"cleanrl {VERSION} ({commit(CHECKOUT)})"
BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)
CHOICES = spaces.Discrete(3)
# Widths of hidden layers in CleanRL, and here.
WIDTHS = {"64": "5", "120": "5", "84": "4"}

# The scripts import these for what does not run here.
for unused in ("tyro", "torch.utils.tensorboard", "cleanrl_utils", "cleanrl_utils.buffers"):
    sys.modules[unused] = mock.MagicMock()


class Script:
    """A script of CleanRL: its classes, and its main program, of which pieces run in turn with `names` as variables."""

    def __init__(self, name, action_space, changes, **sizes):
        head, self.main = (CHECKOUT / "cleanrl" / f"{name}.py").read_text().split('if __name__ == "__main__":\n')
        head = re.sub(r"\b(64|120|84)\b", lambda width: WIDTHS[width[0]], head)
        self.names = names = {"__name__": name, "__file__": f"{name}.py"}
        exec(head, names)
        names["args"] = self.args = names["Args"](**{**sizes, **changes})
        names["envs"] = SimpleNamespace(
            single_observation_space=spaces.Box(-10.0, 10.0, (OBS,), np.float32), single_action_space=action_space
        )
        self.logged = {}
        names["writer"] = SimpleNamespace(add_scalar=lambda name, value, step: self.logged.update({name: value}))
        names.update(device="cpu", start_time=0.0, print=lambda *_: None)
        torch.manual_seed(7)

    def run(self, first, end):
        """Runs the lines from one that contains `first` to before one that contains `end`."""
        start = self.main.index(first)
        places = [self.main.rindex("\n", 0, at) + 1 for at in (start, self.main.index(end, start))]
        exec(textwrap.dedent(self.main[places[0] : places[1]]), self.names)

    def __getitem__(self, name):
        return self.names[name]


def space(given):
    actions = {"low": numbers(given.low), "high": numbers(given.high)} if given is BOX else {"discrete": int(given.n)}
    return {"observation_space": {"shape": [OBS]}, "action_space": actions}


def actor_critic(agent):
    names = [f"{part}.{layer}" for part in ("actor", "critic") for layer in ("0", "1", "out")]
    named = layers(names, [agent.actor_mean if hasattr(agent, "actor_mean") else agent.actor, agent.critic])
    if hasattr(agent, "actor_logstd"):
        named["actor.log_std"] = array(agent.actor_logstd[0])
    return named


def ppo_case(argument, changes, settings, action_space=CHOICES, iteration=1, differs=None):
    """The update after one rollout of one environment. By default it is one step, so that its losses can be compared, too."""
    rng = np.random.default_rng(3)
    name = "ppo_continuous_action" if action_space is BOX else "ppo"
    sizes = {"num_envs": 1, "num_steps": ROWS, "num_minibatches": 1, "update_epochs": 1}
    script = Script(name, action_space, changes, **sizes)
    script.run("args.batch_size", "run_name =")
    script.run("agent = Agent", "# ALGO Logic: Storage setup")
    script.run("# ALGO Logic: Storage setup", "# TRY NOT TO MODIFY: start the game")
    agent, args = script["agent"], script.args
    move([agent], 0.3)
    obs = rng.normal(size=(ROWS, OBS)).astype(np.float32)
    starts = np.isin(np.arange(ROWS), [0, 6]).astype(np.float32)
    is_box = action_space is BOX
    actions = rng.normal(size=(ROWS, 2)).astype(np.float32) if is_box else rng.integers(3, size=ROWS)
    with torch.no_grad():
        logp = agent.get_action_and_value(torch.as_tensor(obs), torch.as_tensor(actions))[1].numpy()
    # An earlier policy has acted.
    logp = logp + 0.15 * rng.normal(size=ROWS).astype(np.float32)
    values, rewards = rng.normal(size=(2, ROWS)).astype(np.float32)
    rollout = {"obs": obs, "actions": actions, "logprobs": logp, "rewards": rewards, "dones": starts, "values": values}
    for column, x in rollout.items():
        script[column][:, 0] = torch.as_tensor(x)
    next_obs = torch.as_tensor(rng.normal(size=(1, OBS)).astype(np.float32))
    script.names.update(iteration=iteration, global_step=iteration * ROWS, next_obs=next_obs, next_done=torch.zeros(1))
    before = actor_critic(agent)
    script.run("# Annealing the rate", "for step in range")
    with mock.patch("numpy.random.shuffle"):
        script.run("# bootstrap value if not done", 'print("SPS:"')
    rows = {
        "obs": obs,
        "actions": actions,
        "action_logp": logp,
        "vf_preds": values,
        "advantages": script["b_advantages"].numpy(),
        "value_targets": script["b_returns"].numpy(),
    }
    timestep = (iteration - 1) * ROWS
    steps = [
        step({column: x[start : start + args.minibatch_size] for column, x in rows.items()}, timestep=timestep)
        for start in range(0, ROWS, args.minibatch_size)
    ] * args.update_epochs
    if args.num_minibatches == 1:
        steps[1:] = [step(None, timestep=timestep)] * (args.update_epochs - 1)
    of = script.logged
    losses = {
        "policy_loss": of["losses/policy_loss"],
        "vf_loss": 2.0 * of["losses/value_loss"],
        "entropy": of["losses/entropy"],
        "kl": of["losses/approx_kl"],
        "total_loss": script["loss"].item(),
    }
    own = {"train_batch_size": ROWS, "sgd_minibatch_size": args.minibatch_size, "num_sgd_iter": args.update_epochs, **settings}
    if is_box:
        own = {"lr_schedule": [[0, 3e-4], [1_000_000, 0.0]], "entropy_coeff": 0.0, **own}
    own["model"] = {"fcnet_hiddens": [5, 5]}
    weights = [(before, None), (actor_critic(agent), None)]
    made = case(
        LIBRARY, f"{name}.py", argument, "PPO", "ppo-cleanrl", own, space(action_space), weights[0], steps, weights[1], losses, differs
    )
    if args.num_minibatches > 1:
        return made
    return {**made, "gae": {"rewards": numbers(rewards), "starts": numbers(starts), "last_value": numbers(script["next_value"])[0]}}


def q_case(name, argument, changes, settings, steps=1, spread=0.9, adapt=None, differs=None):
    """Learning steps of a network of values, or of their distribution, on rows that lie in the replay buffer."""
    rng = np.random.default_rng(5)
    is_c51 = name == "c51"
    atoms = {"n_atoms": 7, "v_min": -3.0, "v_max": 3.0} if is_c51 else {}
    sizes = {"batch_size": ROWS, "learning_starts": 0, "train_frequency": 1, **atoms}
    script = Script(name, CHOICES, changes, **sizes)
    script.run("q_network = QNetwork", "rb = ReplayBuffer")
    args, q, target = script.args, script["q_network"], script["target_network"]
    move([q], 0.3)
    if adapt:
        adapt(q)
    target.load_state_dict(q.state_dict())
    move([target], 0.1, 12)

    def weights():
        return tuple(layers(["model.0", "model.1", "advantage.0"], [net.network]) for net in (q, target))

    before, taken = weights(), []
    # Losses and values are logged at each hundredth step.
    for i in range(1, steps + 1):
        obs, new_obs = rng.normal(size=(2, ROWS, OBS)).astype(np.float32)
        actions = rng.integers(3, size=ROWS)
        dones = np.isin(np.arange(ROWS), [3, 9]).astype(np.float32)
        rewards = (2.0 * rng.normal(size=ROWS)).astype(np.float32)
        if not is_c51:
            # Errors of at most `spread`.
            with torch.no_grad():
                taken_q = q(torch.as_tensor(obs)).numpy()[np.arange(ROWS), actions]
                next_q = target(torch.as_tensor(new_obs)).numpy().max(axis=1)
            errors = rng.uniform(-spread, spread, ROWS).astype(np.float32)
            rewards = taken_q - np.float32(args.gamma) * (1 - dones) * next_q + errors
        data = {"observations": obs, "next_observations": new_obs}
        data |= {"actions": actions[:, None], "rewards": rewards[:, None], "dones": dones[:, None]}
        data = SimpleNamespace(**{column: torch.as_tensor(x) for column, x in data.items()})
        script.names.update(global_step=100 * i, rb=SimpleNamespace(sample=lambda size: data))
        script.run("if global_step > args.learning_starts", "if args.save_model")
        rows = {
            "obs": obs,
            "actions": actions,
            "rewards": rewards,
            "new_obs": new_obs,
            "terminated": dones,
            "discounts": np.full(ROWS, args.gamma, np.float32),
        }
        taken.append(step(rows, update_target=100 * i % args.target_network_frequency == 0))
    eps = 0.01 / ROWS if is_c51 else 0.5e-8
    own = {"lr": 2.5e-4, "adam_epsilon": eps, "grad_clip": None, "double_q": False, "dueling": False, "hiddens": []}
    if is_c51:
        own |= {"num_atoms": args.n_atoms, "v_min": args.v_min, "v_max": args.v_max}
    own |= {**settings, "train_batch_size": ROWS, "model": {"fcnet_hiddens": [5, 4], "fcnet_activation": "relu"}}
    found = {"mean_q": script.logged["losses/q_values"]}
    # Within 1 Huber's loss is half the squared error: so is its gradient, and Adam's epsilon is halved, too.
    found["loss"] = script.logged["losses/loss"] if is_c51 else 0.5 * script.logged["losses/td_loss"].item()
    return case(LIBRARY, f"{name}.py", argument, "DQN", None, own, space(CHOICES), before, taken, weights(), found, differs)


def ppo():
    made = ppo_case
    differs = (
        "CleanRL ends the passes after one whose last minibatch had a KL above `target_kl`, pavlov before the step of a minibatch whose KL "
        "is above 1.5 times `target_kl`."
    )
    faster = [[0, 0.01], [500_000, 0.0]]
    return [
        made("norm_adv=True, one step", {}, {}),
        made("defaults", {"num_minibatches": 4, "update_epochs": 4}, {}),
        made("num_minibatches=2", {"num_minibatches": 2}, {}),
        made("update_epochs=4", {"update_epochs": 4}, {}),
        made("learning_rate=0.01, update_epochs=4", {"learning_rate": 0.01, "update_epochs": 4}, {"lr_schedule": faster}),
        made("anneal_lr=True, half way", {}, {}, iteration=15_626),
        made("anneal_lr=False, half way", {"anneal_lr": False}, {"lr": 2.5e-4, "lr_schedule": None}, iteration=15_626),
        made("norm_adv=False", {"norm_adv": False}, {"normalize_advantages": "none"}),
        made("clip_coef=0.05", {"clip_coef": 0.05}, {"clip_param": 0.05, "vf_clip_param": 0.05}),
        made("clip_vloss=False", {"clip_vloss": False}, {"vf_clip": "none"}),
        made("ent_coef=0.1", {"ent_coef": 0.1}, {"entropy_coeff": 0.1}),
        made("vf_coef=0.1", {"vf_coef": 0.1}, {"vf_loss_coeff": 0.05}),
        made("max_grad_norm=0.01", {"max_grad_norm": 0.01}, {"grad_clip": 0.01}),
        made("max_grad_norm=100", {"max_grad_norm": 100.0}, {"grad_clip": 100.0}),
        made("gamma=0.9", {"gamma": 0.9}, {"gamma": 0.9}),
        made("gae_lambda=0.5", {"gae_lambda": 0.5}, {"lambda": 0.5}),
        made("target_kl=1, update_epochs=4", {"target_kl": 1.0, "update_epochs": 4}, {"target_kl": 1.0 / 1.5}),
        made("target_kl=0.001, update_epochs=4", {"target_kl": 0.001, "update_epochs": 4}, {"target_kl": 0.001 / 1.5}, differs=differs),
    ]


def ppo_continuous_action():
    def made(argument, changes, settings):
        return ppo_case(argument, changes, settings, BOX)

    return [
        made("norm_adv=True, one step", {}, {}),
        made("num_minibatches=4, update_epochs=4", {"num_minibatches": 4, "update_epochs": 4}, {}),
        made("norm_adv=False", {"norm_adv": False}, {"normalize_advantages": "none"}),
        made("clip_coef=0.05", {"clip_coef": 0.05}, {"clip_param": 0.05, "vf_clip_param": 0.05}),
        made("clip_vloss=False", {"clip_vloss": False}, {"vf_clip": "none"}),
        made("ent_coef=0.1", {"ent_coef": 0.1}, {"entropy_coeff": 0.1}),
        made("max_grad_norm=0.01", {"max_grad_norm": 0.01}, {"grad_clip": 0.01}),
    ]


def c51():
    def made(argument, changes, settings, **more):
        return q_case("c51", argument, changes, settings, **more)

    def unlikely(q):
        with torch.no_grad():
            q.network[-1].bias[1 :: q.n_atoms] -= 20.0

    return [
        made("defaults, n_atoms=7, v_min=-3, v_max=3", {}, {}),
        made("three steps", {}, {}, steps=3),
        made("n_atoms=21, v_min=-10, v_max=10", {"n_atoms": 21, "v_min": -10.0, "v_max": 10.0}, {}),
        made("v_min=-1, v_max=1", {"v_min": -1.0, "v_max": 1.0}, {}),
        made("gamma=0.5", {"gamma": 0.5}, {}),
        made("learning_rate=0.01", {"learning_rate": 0.01}, {"lr": 0.01}, steps=2),
        made("target_network_frequency=1", {"target_network_frequency": 1}, {}, steps=2),
        made(
            "an atom of probability 1e-9", {}, {}, adapt=unlikely,
            differs="CleanRL takes probabilities below 1e-5 as 1e-5, so that they have no gradient.",
        ),
    ]


def dqn():
    def made(argument, changes, settings, **more):
        return q_case("dqn", argument, changes, settings, **more)

    return [
        made("defaults, errors below 1", {}, {}),
        made("gamma=0.5, errors below 1", {"gamma": 0.5}, {}),
        made("learning_rate=0.01, errors below 1", {"learning_rate": 0.01}, {"lr": 0.01}, steps=3),
        made("target_network_frequency=1, errors below 1", {"target_network_frequency": 1}, {}, steps=2),
        made(
            "tau=0.5, target_network_frequency=1, errors below 1", {"tau": 0.5, "target_network_frequency": 1}, {},
            differs="pavlov's DQN copies all of the network into its target copy.",
        ),
        made("defaults", {}, {}, spread=3.0, differs="CleanRL's loss is the squared error, pavlov's is Huber's."),
    ]


def main():
    for made in (ppo, ppo_continuous_action, c51, dqn):
        if not sys.argv[2:] or made.__name__ in sys.argv[2:]:
            write("cleanrl", made.__name__, made())


if __name__ == "__main__":
    main()
