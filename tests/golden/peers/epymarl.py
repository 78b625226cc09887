"""Writes one update by EPyMARL's and PyMARL's `QLearner` per case, as fixtures that `peers.rs` compares pavlov's QMIX with.

Run it in a Python that has torch and pyyaml, with checkouts of https://github.com/uoe-agents/epymarl and
https://github.com/oxwhirl/pymarl: `python tests/golden/peers/epymarl.py EPYMARL PYMARL`. It builds the controller, the mixer and the
learner by the repositories' own classes and configurations, fills their `EpisodeBatch` with made-up episodes, and calls their own `train`.

Both compute the same loss; the rest differs. EPyMARL's network of a member is pavlov's (`use_rnn: False`), its optimizer is Adam: the
first step of Adam is that of RMSprop with a decay of 0.99 and a tenth of the step size and of epsilon, so cases are one step. PyMARL's
optimizer is pavlov's, its network is recurrent: it gets EPyMARL's. The mixers' networks of weights have one layer
(`hypernet_layers: 1`), the default is two, which pavlov does not have.
"""

import importlib
import pathlib
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import torch
import yaml
from fixture import OBS, ROWS, case, commit, layers, move, step, write

# Of torch, about how the batches index tensors.
warnings.filterwarnings("ignore", category=UserWarning)
MEMBERS = 2
ACTIONS = 3
# Episodes of at most 5 steps; that of all 5 is cut, the others end. There are rows of padding behind the short ones.
LENGTHS = [5, 2, 5, 4]
CUT = [True, False, False, False]
LONGEST = max(LENGTHS)
assert sum(LENGTHS) == ROWS


class Library:
    """The modules of a checkout. Both have modules of the same names: after they are imported these are forgotten."""

    def __init__(self, name, checkout):
        self.name = f"{name} ({commit(checkout)})"
        self.source = pathlib.Path(checkout).resolve() / "src"
        sys.path.insert(0, str(self.source))
        self.learners, self.controllers, self.agents, self.batches, self.transforms = (
            importlib.import_module(name)
            for name in ("learners", "controllers", "modules.agents", "components.episode_buffer", "components.transforms")
        )
        sys.path.pop(0)
        for name, module in list(sys.modules.items()):
            if str(self.source) in str(getattr(module, "__file__", "")):
                del sys.modules[name]

    def configuration(self, algorithm):
        files = [self.source / "config" / name for name in ("default.yaml", f"algs/{algorithm}.yaml")]
        found = {k: v for file in files for k, v in yaml.safe_load(file.read_text()).items()}
        return {"use_rnn": True, **found}


EPYMARL, PYMARL = (Library(name, at) for name, at in zip(("EPyMARL", "PyMARL"), sys.argv[1:3]))
PYMARL.agents.REGISTRY["rnn"] = EPYMARL.agents.REGISTRY["rnn"]
# What all cases change of the configurations: sizes, and what pavlov does not have.
OWN = {
    "n_agents": MEMBERS,
    "n_actions": ACTIONS,
    "hidden_dim": 4,
    "mixing_embed_dim": 3,
    "use_rnn": False,
    "hypernet_layers": 1,
    "standardise_rewards": False,
    "obs_agent_id": False,
    "obs_last_action": False,
    "use_cuda": False,
    "learner_log_interval": 1,
}
# Of these, what is more than a size.
KINDS = ["use_rnn", "hypernet_layers", "standardise_rewards", "obs_agent_id", "obs_last_action"]


def episodes(library, args, rng, masks):
    """Made-up episodes, and their steps as rows of pavlov."""
    common = getattr(args, "common_reward", True)
    scheme = {
        "state": {"vshape": args.state_shape},
        "obs": {"vshape": OBS, "group": "agents"},
        "actions": {"vshape": (1,), "group": "agents", "dtype": torch.long},
        "avail_actions": {"vshape": (ACTIONS,), "group": "agents", "dtype": torch.int},
        "terminated": {"vshape": (1,), "dtype": torch.uint8},
        "reward": {"vshape": (1 if common else MEMBERS,)},
    }
    preprocess = {"actions": ("actions_onehot", [library.transforms.OneHot(out_dim=ACTIONS)])}
    count = len(LENGTHS)
    batch = library.batches.EpisodeBatch(scheme, {"agents": MEMBERS}, count, LONGEST + 1, preprocess=preprocess)
    rows = {name: [] for name in ("obs", "actions", "rewards", "new_obs", "terminated", "new_action_mask")}
    for episode, (length, cut) in enumerate(zip(LENGTHS, CUT)):
        obs = rng.normal(size=(length + 1, MEMBERS, OBS)).astype(np.float32)
        legal = rng.random((length + 1, MEMBERS, ACTIONS)) < (0.5 if masks else 2.0)
        actions = rng.integers(ACTIONS, size=(length + 1, MEMBERS, 1))
        np.put_along_axis(legal, actions, True, axis=2)
        rewards = rng.normal(size=(length, 1 if common else MEMBERS)).astype(np.float32)
        ends = np.zeros((length, 1), np.uint8)
        ends[-1] = not cut
        # As pavlov sees it, a number that says which member it is is a part of the observation.
        seen = obs
        if args.obs_agent_id:
            seen = np.concatenate([obs, np.broadcast_to(np.eye(MEMBERS, dtype=np.float32), (length + 1, MEMBERS, MEMBERS))], 2)
        seen = seen.reshape(length + 1, -1)
        after = {"state": seen, "obs": obs, "avail_actions": legal.astype(np.int32), "actions": actions}
        for columns, steps in ((after, length + 1), ({"reward": rewards, "terminated": ends}, length)):
            columns = {name: torch.as_tensor(x)[None] for name, x in columns.items()}
            batch.update(columns, bs=episode, ts=slice(0, steps))
        rows["obs"].append(seen[:-1])
        rows["new_obs"].append(seen[1:])
        rows["actions"].append(actions[:-1, :, 0])
        rows["rewards"].append(rewards.sum(axis=1))
        rows["terminated"].append(ends[:, 0].astype(np.float32))
        rows["new_action_mask"].append(legal[1:].reshape(length, -1))
    rows = {name: np.concatenate(of) for name, of in rows.items()}
    if not masks:
        del rows["new_action_mask"]
    return batch, {**rows, "discounts": np.full(ROWS, args.gamma, np.float32)}


def weights(mac, mixer):
    named = layers(["agent.0", "agent.1", "agent.2"], [mac.agent])
    if hasattr(mixer, "hyper_w_1"):
        parts = [mixer.hyper_w_1, mixer.hyper_w_final, mixer.hyper_b_1, mixer.V]
        named |= layers([f"mixer.{name}" for name in ("w1", "w2", "b1", "b2.0", "b2.1")], parts)
    return named


def made(library, algorithm, argument, changes, settings, steps, masks=False, differs=None):
    rng = np.random.default_rng(9)
    configured = library.configuration(algorithm)
    args = SimpleNamespace(**{**configured, **OWN, **changes})
    if argument == "defaults":
        argument += "".join(f", {k}={OWN[k]}" for k in KINDS if k in configured and configured[k] != OWN[k])
    args.state_shape = MEMBERS * (OBS + MEMBERS * args.obs_agent_id)
    drawn = [episodes(library, args, rng, masks) for _ in range(steps)]
    torch.manual_seed(7)
    mac = library.controllers.REGISTRY["basic_mac"](drawn[0][0].scheme, None, args)
    logged = {}
    logger = SimpleNamespace(
        log_stat=lambda name, value, t: logged.update({name: value}), console_logger=SimpleNamespace(info=lambda text: None)
    )
    learner = library.learners.REGISTRY["q_learner"](mac, drawn[0][0].scheme, logger, args)
    nets = [net for net in (mac.agent, learner.mixer) if net is not None]
    targets = [net for net in (learner.target_mac.agent, getattr(learner, "target_mixer", None)) if net is not None]
    move(nets, 0.2)
    for net, target in zip(nets, targets):
        target.load_state_dict(net.state_dict())
    move(targets, 0.3, 12)

    def both():
        return weights(mac, learner.mixer), weights(learner.target_mac, getattr(learner, "target_mixer", None))

    before, taken = both(), []
    each = getattr(args, "target_update_interval_or_tau", None) or args.target_update_interval
    for i, (batch, rows) in enumerate(drawn):
        learner.train(batch, i, i + 1)
        taken.append(step(rows, update_target=each == 1))
    # The mean over members counts the team's value once for each.
    losses = {"loss": logged["loss"], "mean_q": MEMBERS * logged["q_taken_mean"]}
    own = {"lr": args.lr} if library is PYMARL else {"lr": args.lr / 10, "optim_alpha": 0.99, "optim_eps": 1e-9}
    own |= {"mixer": args.mixer, "double_q": args.double_q, "mixing_embed_dim": args.mixing_embed_dim, **settings}
    own["model"] = {"fcnet_hiddens": [args.hidden_dim] * 2, "fcnet_activation": "relu"}
    spaces = {
        "observation_space": {"members": MEMBERS, "shape": [args.state_shape // MEMBERS]},
        "action_space": {"multi_discrete": [ACTIONS] * MEMBERS},
    }
    name = algorithm.upper()
    return case(library.name, name, argument, "QMIX", None, own, spaces, before, taken, both(), losses, differs)


def epymarl(algorithm):
    def one(argument, changes, settings=None, **more):
        return made(EPYMARL, algorithm, argument, changes, settings or {}, 1, **more)

    standardised = "pavlov does not standardise {} by a running mean and deviation."
    cases = [
        one("defaults", {}),
        one("double_q=False", {"double_q": False}),
        one("avail_actions", {}, masks=True),
        one("avail_actions, double_q=False", {"double_q": False}, masks=True),
        one("obs_agent_id=True", {"obs_agent_id": True}),
        one("gamma=0.5", {"gamma": 0.5}),
        one("lr=0.01", {"lr": 0.01}),
        one("target_update_interval_or_tau=1", {"target_update_interval_or_tau": 1.0}),
        one(
            "target_update_interval_or_tau=0.01", {"target_update_interval_or_tau": 0.01},
            differs="pavlov's QMIX copies all of the network into its target copy.",
        ),
        one("standardise_rewards=True", {"standardise_rewards": True}, differs=standardised.format("rewards")),
        one("standardise_returns=True", {"standardise_returns": True}, differs=standardised.format("returns")),
    ]
    if algorithm == "iql":
        differs = "Each member learns from its own reward in EPyMARL, from the sum in pavlov."
        cases.append(one("common_reward=False", {"common_reward": False}, differs=differs))
    return cases


def pymarl(algorithm):
    def one(argument, changes, settings=None, **more):
        return made(PYMARL, algorithm, argument, changes, settings or {}, 2, **more)

    return [
        one("defaults", {}),
        one("double_q=False", {"double_q": False}),
        one("avail_actions", {}, masks=True),
        one("gamma=0.5", {"gamma": 0.5}),
        one("lr=0.002", {"lr": 0.002}),
        one("grad_norm_clip=0.1", {"grad_norm_clip": 0.1}, {"grad_clip": 0.1}),
        one("optim_alpha=0.9, optim_eps=0.01", {"optim_alpha": 0.9, "optim_eps": 0.01}, {"optim_alpha": 0.9, "optim_eps": 0.01}),
        one("target_update_interval=1", {"target_update_interval": 1}),
    ]


def main():
    for algorithm in ("qmix", "vdn", "iql"):
        write("epymarl", algorithm, epymarl(algorithm))
        write("epymarl", f"pymarl_{algorithm}", pymarl(algorithm))


if __name__ == "__main__":
    main()
