"""Writes one update by Ray 1.13.0 (RLlib's torch policies) per case, as fixtures that `peers.rs` compares pavlov with.

Run it in a Python 3.9 that has ray[rllib] 1.13.0, torch 1.13.1, gym 0.21, numpy below 1.24, protobuf below 3.21 and pydantic
below 2: `python tests/golden/peers/ray113.py`, or with names of files (`ppo`, `initial`) for those only. It builds each policy by the library's own class, gives it made-up rows and calls
the library's own `learn_on_batch`. Random numbers that are drawn within an update are replaced by recorded ones.
"""

import copy
import json
import logging
import os
import pathlib
import sys
import warnings

os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
warnings.filterwarnings("ignore")

import numpy as np
import ray
import torch
from fixture import array, numbers
from gym import spaces
from ray.rllib.agents.a3c import a2c, a3c_torch_policy
from ray.rllib.agents.ddpg import ddpg, ddpg_torch_policy, td3
from ray.rllib.agents.dqn import dqn, dqn_torch_policy
from ray.rllib.agents.impala import impala, vtrace_torch_policy
from ray.rllib.agents.ppo import ppo, ppo_torch_policy
from ray.rllib.agents.qmix import qmix, qmix_policy
from ray.rllib.agents.sac import sac, sac_torch_policy
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.models import ModelCatalog
from ray.rllib.models.preprocessors import get_preprocessor
from ray.rllib.models.torch.torch_modelv2 import TorchModelV2
from ray.rllib.policy.sample_batch import SampleBatch

logging.disable(logging.WARNING)
torch.set_num_threads(1)

HERE = pathlib.Path(__file__).parent / "ray113"
LIBRARY = f"ray {ray.__version__}"
OBS = 3
ROWS = 16
HIDDEN = [8, 8]
SEEN = spaces.Box(-10.0, 10.0, (OBS,), np.float32)
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
WIDE = spaces.Box(-2.0, 2.0, (2,), np.float32)
CHOICES = spaces.Discrete(3)
SEVERAL = spaces.MultiDiscrete([2, 3])
# The members of a team of QMIX, and their actions.
MEMBERS = 2


def linear(name, layer):
    """The weights of a layer: torch's own, or Ray's `SlimFC` around it."""
    layer = next(m for m in layer.modules() if isinstance(m, torch.nn.Linear))
    return {f"{name}.weight": array(layer.weight), f"{name}.bias": array(layer.bias)}


def layers_of(module):
    return [m for m in module.modules() if isinstance(m, torch.nn.Linear)]


def linears(name, module, *, out=False):
    """The linear layers of a module, in order; with `out` the last is the output layer."""
    found = layers_of(module)
    names = [str(i) for i in range(len(found))]
    if out:
        names[-1] = "out"
    return {k: v for n, layer in zip(names, found) for k, v in linear(f"{name}.{n}", layer).items()}


def actor_critic(policy):
    """The weights of PPO, A2C and IMPALA."""
    m = policy.model
    named = {**linears("actor", m._hidden_layers), **linear("actor.out", m._logits)}
    if m.free_log_std:
        named["actor.log_std"] = array(m._append_free_log_std.log_std)
    if m._value_branch_separate is not None:
        named |= linears("critic", m._value_branch_separate)
    return {**named, **linear("critic.out", m._value_branch)}, None


def target_of(policy):
    return next(iter(policy.target_models.values()))


def dqn_weights(policy):
    def named(m):
        found = linears("model", m._hidden_layers)
        heads = layers_of(m.advantage_module)
        if not heads:
            return {**found, **linear("advantage.0", m._logits)}
        found |= linears("advantage", m.advantage_module)
        return {**found, **(linears("value", m.value_module) if m.dueling else {})}

    return named(policy.model), named(target_of(policy))


def sac_weights(policy):
    def critics(m):
        nets = [m.q_net, m.twin_q_net] if m.twin_q_net is not None else [m.q_net]
        found = {}
        for i, q in enumerate(nets):
            found |= {**linears(f"q{i + 1}", q._hidden_layers), **linear(f"q{i + 1}.out", q._logits)}
        return found

    m = policy.model
    pi = {**linears("actor", m.action_model._hidden_layers), **linear("actor.out", m.action_model._logits)}
    return {**pi, **critics(m), "log_alpha": array(m.log_alpha)}, critics(target_of(policy))


def ddpg_weights(policy):
    def named(m):
        nets = [m.q_model] + ([m.twin_q_model] if m.twin_q_model is not None else [])
        found = linears("actor", m.policy_model, out=True)
        for i, q in enumerate(nets):
            found |= linears(f"q{i + 1}", q, out=True)
        return found

    return named(policy.model), named(target_of(policy))


def qmix_weights(policy):
    def named(model, mixer):
        found = linears("agent", model.net)
        if isinstance(mixer, qmix_policy.QMixer):
            found |= linear("mixer.w1", mixer.hyper_w_1) | linear("mixer.b1", mixer.hyper_b_1)
            found |= linear("mixer.w2", mixer.hyper_w_final)
            found |= linear("mixer.b2.0", mixer.V[0]) | linear("mixer.b2.1", mixer.V[2])
        return found

    return named(policy.model, policy.mixer), named(policy.target_model, policy.target_mixer)


class Feedforward(TorchModelV2, torch.nn.Module):
    """The network of a member in QMIX without the recurrent layer of Ray's own, which pavlov does not have."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        torch.nn.Module.__init__(self)
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        widths = [int(np.prod(model_config.get("full_obs_space", obs_space).shape)), *model_config["fcnet_hiddens"]]
        parts = []
        for a, b in zip(widths, widths[1:]):
            parts += [torch.nn.Linear(a, b), torch.nn.ReLU()]
        self.net = torch.nn.Sequential(*parts, torch.nn.Linear(widths[-1], num_outputs))

    def get_initial_state(self):
        return [torch.zeros(1, 1)]

    def forward(self, input_dict, hidden_state, seq_lens):
        return self.net(input_dict["obs"].float()), hidden_state


ModelCatalog.register_custom_model("feedforward", Feedforward)


def space(given):
    if isinstance(given, spaces.Box):
        return {"low": numbers(given.low), "high": numbers(given.high)}
    if isinstance(given, spaces.Tuple):
        return {"multi_discrete": [int(s.n) for s in given.spaces]}
    return {"discrete": int(given.n)} if isinstance(given, spaces.Discrete) else {"multi_discrete": numbers(given.nvec)}


class Noise:
    """Within it, standard normal numbers that torch is asked for are those of a list."""

    def __init__(self, arrays):
        self.arrays = list(arrays)

    def __enter__(self):
        import torch.distributions.normal as normal

        self.old = normal._standard_normal, torch.normal

        def drawn(shape, dtype, device):
            x = torch.as_tensor(self.arrays.pop(0))
            assert tuple(x.shape) == tuple(shape)
            return x

        normal._standard_normal = drawn
        torch.normal = lambda mean, std: mean + std * drawn(mean.shape, None, None)

    def __exit__(self, *failed):
        import torch.distributions.normal as normal

        normal._standard_normal, torch.normal = self.old
        assert failed[0] or not self.arrays, "numbers that were not drawn"


def merged(config, changes):
    config = copy.deepcopy(config)
    for key, value in changes.items():
        nested = isinstance(value, dict) and isinstance(config.get(key), dict)
        config[key] = merged(config[key], value) if nested else value
    return config


def move(module, generator, size):
    """Moves all weights that are learned: biases are 0 in a fresh network, and a small output layer hides mistakes."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            if p.requires_grad and name != "log_alpha":
                p.add_(torch.randn(p.shape, generator=generator) * size)


def make(cls, default, action_space, changes, *, obs_space=SEEN, size=0.2, fresh=None):
    """A policy whose weights were moved, and a target copy that differs from them."""
    torch.manual_seed(7 if fresh is None else fresh)
    np.random.seed(7)
    config = merged(default, {"framework": "torch", "num_gpus": 0, "num_workers": 0, **changes})
    policy = cls(obs_space, action_space, config)
    if fresh is not None:
        return policy
    generator = torch.Generator().manual_seed(11)
    move(policy.model, generator, size)
    if getattr(policy, "mixer", None) is not None:
        move(policy.mixer, generator, size)
        move(policy.target_mixer, generator, size)
    if hasattr(policy, "target_model"):
        target = policy.target_model if cls is qmix_policy.QMixTorchPolicy else target_of(policy)
        target.load_state_dict(policy.model.state_dict())
        move(target, generator, 0.1)
    return policy


def case(algorithm, argument, trainer, settings, action_space, before, steps, after, losses, differs=None, **more):
    found = {
        "library": LIBRARY,
        "algorithm": algorithm,
        "argument": argument,
        "trainer": trainer,
        "base": None,
        "settings": settings,
        "observation_space": {"shape": [OBS]},
        "action_space": space(action_space),
        "before": before[0],
        "target": before[1],
        "steps": steps,
        "after": after[0],
        "target_after": after[1],
        "losses": {name: float(value) for name, value in losses.items()},
        "equal": differs is None,
        **more,
    }
    return found if differs is None else {**found, "expected_difference": differs}


def stats(learned):
    return learned["learner_stats"]


def some_actions(rng, action_space, rows):
    if isinstance(action_space, spaces.Box):
        return rng.normal(size=(rows, action_space.shape[0])).astype(np.float32)
    if isinstance(action_space, spaces.Discrete):
        return rng.integers(action_space.n, size=rows)
    return rng.integers(action_space.nvec, size=(rows, len(action_space.nvec)))


def near(policy, rng, inputs, spread):
    """Inputs of action distributions near those of the policy, as an earlier policy had."""
    return (inputs + spread * rng.normal(size=inputs.shape)).astype(np.float32)


def acted(policy, obs, actions, rng, spread):
    """What an earlier policy stored when it acted: inputs and log-probabilities."""
    with torch.no_grad():
        inputs = policy.model({"obs": torch.as_tensor(obs), "obs_flat": torch.as_tensor(obs)})[0].numpy()
        inputs = near(policy, rng, inputs, spread)
        dist = policy.dist_class(torch.as_tensor(inputs), policy.model)
        logp = dist.logp(torch.as_tensor(actions)).numpy().astype(np.float32)
    return inputs, logp


def ppo_case(argument, changes, settings, action_space=BOX, model=None, losses=True, differs=None, steps=2):
    rng = np.random.default_rng(3)
    size = {"fcnet_hiddens": HIDDEN, **(model or {})}
    changes = {"model": size, "lr": 1e-3, **changes}
    policy = make(ppo_torch_policy.PPOTorchPolicy, ppo.DEFAULT_CONFIG, action_space, changes)
    obs = rng.normal(size=(ROWS, OBS)).astype(np.float32)
    actions = some_actions(rng, action_space, ROWS)
    inputs, logp = acted(policy, obs, actions, rng, 0.25)
    rows = {
        "obs": obs,
        "actions": actions,
        "action_logp": logp,
        "action_dist_inputs": inputs,
        "advantages": rng.normal(size=ROWS).astype(np.float32),
        "value_targets": (2.5 * rng.normal(size=ROWS)).astype(np.float32),
        "vf_preds": rng.normal(size=ROWS).astype(np.float32),
    }
    before = actor_critic(policy)
    for _ in range(steps):
        learned = stats(policy.learn_on_batch(SampleBatch(rows)))
    names = ["policy_loss", "vf_loss", "entropy", "total_loss"] + ["kl"] * (policy.config["kl_coeff"] > 0)
    own = {"lr": 1e-3, "train_batch_size": ROWS, "sgd_minibatch_size": ROWS, "num_sgd_iter": 1, **settings, "model": size}
    named = {name: array(x) for name, x in rows.items()}
    recorded = [{"rows": named if i == 0 else "same", "update_target": False, "timestep": 0} for i in range(steps)]
    return case(
        "PPO", argument, "PPO", own, action_space, before, recorded, actor_critic(policy), {n: learned[n] for n in names}, differs
    )


def a2c_case(argument, changes, settings, action_space=BOX, differs=None):
    """A2C's loss is a sum over the rows; here it is PPO's, which is a mean, so `grad_clip` and epsilon are per row."""
    rng = np.random.default_rng(4)
    changes = {"model": {"fcnet_hiddens": HIDDEN}, "lr": 1e-3, **changes}
    policy = make(a3c_torch_policy.A3CTorchPolicy, a2c.A2C_DEFAULT_CONFIG, action_space, changes)
    obs = rng.normal(size=(ROWS, OBS)).astype(np.float32)
    actions = some_actions(rng, action_space, ROWS)
    inputs, logp = acted(policy, obs, actions, rng, 0.0)
    rows = {
        "obs": obs,
        "actions": actions,
        "advantages": rng.normal(size=ROWS).astype(np.float32),
        "value_targets": rng.normal(size=ROWS).astype(np.float32),
        "vf_preds": rng.normal(size=ROWS).astype(np.float32),
    }
    before = actor_critic(policy)
    learned = stats(policy.learn_on_batch(SampleBatch(rows)))
    config = policy.config
    clip = config["grad_clip"]
    own = {
        "lr": 1e-3,
        "train_batch_size": ROWS,
        "sgd_minibatch_size": ROWS,
        "num_sgd_iter": 1,
        "kl_coeff": 0.0,
        "vf_clip": "none",
        "normalize_advantages": "none",
        "adam_epsilon": 1e-8 / ROWS,
        "grad_clip": None if clip is None else clip / ROWS,
        "vf_loss_coeff": 0.5 * config["vf_loss_coeff"],
        "entropy_coeff": config["entropy_coeff"],
        **settings,
        "model": {"fcnet_hiddens": HIDDEN, "vf_share_layers": policy.model.vf_share_layers},
    }
    named = {name: array(x) for name, x in {**rows, "action_logp": logp, "action_dist_inputs": inputs}.items()}
    losses = {"vf_loss": 2.0 * learned["vf_loss"] / ROWS, "entropy": learned["policy_entropy"] / ROWS}
    steps = [{"rows": named, "update_target": False, "timestep": 0}]
    return case("A2C", argument, "PPO", own, action_space, before, steps, actor_critic(policy), losses, differs)


def transitions(rng, action_space, weights=False, low=-1.0, high=1.0):
    is_box = isinstance(action_space, spaces.Box)
    actions = rng.uniform(low, high, (ROWS, 2)).astype(np.float32) if is_box else rng.integers(action_space.n, size=ROWS)
    rows = {
        "obs": rng.normal(size=(ROWS, OBS)).astype(np.float32),
        "actions": actions,
        "rewards": (2.0 * rng.normal(size=ROWS)).astype(np.float32),
        "new_obs": rng.normal(size=(ROWS, OBS)).astype(np.float32),
        "dones": np.isin(np.arange(ROWS), [3, 9]),
    }
    rows["weights"] = rng.uniform(0.2, 1.0, ROWS).astype(np.float32) if weights else np.ones(ROWS, np.float32)
    return rows


def recorded(rows, discount, weights, more=()):
    """The columns of pavlov for rows of Ray; the discount is gamma to the power of `n_step`."""
    named = {name: array(x) for name, x in rows.items() if name not in ("dones", "weights")}
    named["terminated"] = array(rows["dones"].astype(np.float32))
    named["discounts"] = array(np.full(ROWS, discount, np.float32))
    if weights:
        named["weights"] = array(rows["weights"])
    return named | {name: array(x) for name, x in dict(more).items()}


def off_policy(
    algorithm, trainer, cls, default, weights_of, changes, settings, argument, action_space, draws, names, steps=2, weights=False,
    factor=None, differs=None, widest=1.0, size=0.2, update_target=True,
):
    rng = np.random.default_rng(5)
    policy = make(cls, default, action_space, changes, size=size)
    before = weights_of(policy)
    discount = policy.config["gamma"] ** policy.config["n_step"]
    taken = []
    for _ in range(steps):
        rows = transitions(rng, action_space, weights, -widest, widest)
        noise = {name: rng.normal(size=(ROWS, 2)).astype(np.float32) for name in draws}
        with Noise(noise.values()):
            learned = stats(policy.learn_on_batch(SampleBatch(rows)))
        if update_target:
            policy.update_target()
        # Actions of pavlov's rows are in [-1, 1].
        own = {**rows, "actions": rows["actions"] / widest} if widest != 1.0 else rows
        taken.append({"rows": recorded(own, discount, weights, noise), "update_target": update_target, "timestep": 0})
    losses = {n: learned[n] * (factor or {}).get(n, 1.0) for n in names if n in learned}
    return case(algorithm, argument, trainer, settings, action_space, before, taken, weights_of(policy), losses, differs)


def dqn_case(argument, changes, settings, weights=False, steps=2, update_target=False, differs=None):
    changes = merged({"model": {"fcnet_hiddens": HIDDEN}, "hiddens": [8], "lr": 1e-3}, changes)
    own = merged({"model": {"fcnet_hiddens": HIDDEN}, "hiddens": [8], "lr": 1e-3}, settings)
    default = dqn.DEFAULT_CONFIG
    return off_policy(
        "DQN", "DQN", dqn_torch_policy.DQNTorchPolicy, default, dqn_weights, changes, own, argument, CHOICES, [],
        ["mean_q", "min_q", "max_q"], steps, weights, None, differs, update_target=update_target,
    )


def sac_case(argument, changes, settings, action_space=BOX, weights=False, steps=2, differs=None, widest=1.0):
    hidden = {"fcnet_hiddens": HIDDEN}
    changes = merged({"policy_model": hidden, "Q_model": hidden}, changes)
    own = merged({"policy_model_config": hidden, "q_model_config": hidden}, settings)
    discrete = isinstance(action_space, spaces.Discrete)
    if not discrete:
        own.setdefault("log_prob_epsilon", 1e-6)
    names = ["actor_loss", "critic_loss", "alpha_loss"] + ([] if discrete else ["mean_q", "min_q", "max_q"])
    # Ray reports the mean of the critics' losses, pavlov their sum.
    factor = {"critic_loss": 2.0 if changes.get("twin_q", True) else 1.0}
    return off_policy(
        "SAC", "SAC", sac_torch_policy.SACTorchPolicy, sac.DEFAULT_CONFIG, sac_weights, changes, own, argument, action_space,
        [] if discrete else ["noise", "next_noise"], names, steps, weights, factor, differs, widest, size=0.1,
    )


def ddpg_case(algorithm, argument, changes, settings, weights=False, steps=2, differs=None, action_space=BOX, widest=1.0):
    default = {"DDPG": ddpg.DEFAULT_CONFIG, "TD3": td3.TD3_DEFAULT_CONFIG}[algorithm]
    # The weight decay of Ray's torch policy has no gradient, as it is computed from a `state_dict`.
    sizes = {"actor_hiddens": HIDDEN, "critic_hiddens": HIDDEN, "l2_reg": 0.0}
    full = {**default, **sizes, **changes}
    draws = ["noise"] if full["smooth_target_policy"] else []
    # Ray's reported losses include the weight decay, pavlov's do not.
    names = ["mean_q", "min_q", "max_q"] + ([] if full["l2_reg"] else ["critic_loss"])
    if not full["l2_reg"] and full["policy_delay"] == 1:
        names.append("actor_loss")
    return off_policy(
        algorithm, algorithm, ddpg_torch_policy.DDPGTorchPolicy, default, ddpg_weights, {**sizes, **changes}, {**sizes, **settings},
        argument, action_space, draws, names, steps, weights, None, differs, widest,
    )


def check_vtrace(targets, config):
    """Ray's V-trace targets are those of pavlov's formulas (`crates/learn/src/experience/vtrace.rs`), row by row."""
    for found in targets:
        x = found["inputs"]
        rho = np.exp(x["log_rhos"].astype(np.float64))
        bar, c = np.minimum(rho, config["vtrace_clip_rho_threshold"]), np.minimum(rho, 1.0)
        pg = np.minimum(rho, config["vtrace_clip_pg_rho_threshold"])
        v, (copies, length) = x["values"], rho.shape
        vs, advantages = np.zeros(rho.shape), np.zeros(rho.shape)
        for b in range(copies):
            next_vs = next_v = x["bootstrap"][b]
            for t in reversed(range(length)):
                r, d = x["rewards"][b, t], x["discounts"][b, t]
                vs[b, t] = v[b, t] + bar[b, t] * (r + d * next_v - v[b, t]) + d * c[b, t] * (next_vs - next_v)
                advantages[b, t] = pg[b, t] * (r + d * next_vs - v[b, t])
                next_vs, next_v = vs[b, t], v[b, t]
        assert np.allclose(vs.ravel(), found["value_targets"], rtol=1e-5, atol=1e-6)
        assert np.allclose(advantages.ravel(), found["advantages"], rtol=1e-5, atol=1e-6)


def impala_case(argument, changes, settings, action_space=CHOICES, differs=None, length=8, drop_last=True, steps=2):
    """Fragments of `length` rows, one after the other. With `vtrace_drop_last_ts` the last row of each is only bootstrapped from."""
    rng = np.random.default_rng(6)
    changes = {
        "model": {"fcnet_hiddens": HIDDEN},
        "rollout_fragment_length": length,
        "train_batch_size": ROWS,
        "lr": 1e-3,
        "vtrace_drop_last_ts": drop_last,
        **changes,
    }
    policy = make(vtrace_torch_policy.VTraceTorchPolicy, impala.DEFAULT_CONFIG, action_space, changes)
    obs = rng.normal(size=(ROWS, OBS)).astype(np.float32)
    actions = some_actions(rng, action_space, ROWS)
    inputs, logp = acted(policy, obs, actions, rng, 0.5)
    dones = np.isin(np.arange(ROWS), [3])
    rows = {
        "obs": obs,
        "actions": actions,
        "action_logp": logp,
        "action_dist_inputs": inputs,
        "rewards": rng.normal(size=ROWS).astype(np.float32),
        "dones": dones,
    }
    before = actor_critic(policy)
    # Ray's V-trace targets are recorded, too: `learn_on_batch` reads them, and `prepare` computes pavlov's own in their place.
    original, targets = vtrace_torch_policy.vtrace.multi_from_logits, []

    def watched(*args, **kwargs):
        found = original(*args, **kwargs)
        flat = [x.detach().numpy().T.reshape(-1) for x in (found.pg_advantages, found.vs)]
        targets.append(dict(zip(("advantages", "value_targets"), flat)))
        targets[-1]["inputs"] = {
            name: kwargs[name].detach().numpy().T for name in ("discounts", "rewards", "values")
        } | {"bootstrap": kwargs["bootstrap_value"].detach().numpy(), "log_rhos": found.log_rhos.detach().numpy().T}
        return found

    vtrace_torch_policy.vtrace.multi_from_logits = watched
    for _ in range(steps):
        learned = stats(policy.learn_on_batch(SampleBatch({**rows, "agent_index": np.zeros(ROWS, int)})))
    vtrace_torch_policy.vtrace.multi_from_logits = original
    check_vtrace(targets, policy.config)
    kept = [t for t in range(ROWS) if not drop_last or t % length != length - 1]
    pieces, behind = [], []
    for first in range(0, ROWS, length):
        last = first + length - 1
        end = last if drop_last else last + 1
        start = first
        for t in range(first, end):
            if dones[t] or t == end - 1:
                pieces.append({"start": kept.index(start), "len": t + 1 - start, "terminated": bool(dones[t])})
                behind += [] if dones[t] else [last]
                start = t + 1
    named = {name: array(x[kept]) for name, x in rows.items() if name != "dones"}
    recorded = [
        {
            "rows": named | {name: array(targets[i][name]) for name in ("advantages", "value_targets")},
            "trajectories": pieces,
            "behind": {"obs": array(obs[behind])},
            "update_target": False,
            "timestep": 0,
        }
        for i in range(steps)
    ]
    count = len(kept)
    losses = {
        "policy_loss": learned["policy_loss"] / count,
        "vf_loss": learned["vf_loss"] / count,
        "entropy": learned["entropy"],
        "total_loss": learned["total_loss"] / count,
    }
    own = {
        "lr": 1e-3,
        "rollout_fragment_length": length,
        "train_batch_size": ROWS,
        **settings,
        "model": {"fcnet_hiddens": HIDDEN, "vf_share_layers": policy.model.vf_share_layers},
    }
    return case("IMPALA", argument, "IMPALA", own, action_space, before, recorded, actor_critic(policy), losses, differs)


def qmix_case(argument, changes, settings, same_rewards=True, differs=None, steps=2):
    rng = np.random.default_rng(8)
    team = spaces.Tuple([SEEN] * MEMBERS)
    obs_space = get_preprocessor(team)(team).observation_space
    action_space = spaces.Tuple([CHOICES] * MEMBERS)
    model = {"fcnet_hiddens": HIDDEN, "custom_model": "feedforward", "max_seq_len": 1}
    sizes = {"mixing_embed_dim": 4, "lr": 1e-3}
    policy = make(
        qmix_policy.QMixTorchPolicy, qmix.DEFAULT_CONFIG, action_space, {**sizes, "model": model, **changes}, obs_space=obs_space
    )
    before = qmix_weights(policy)
    taken = []
    for _ in range(steps):
        obs, new_obs = rng.normal(size=(2, ROWS, MEMBERS * OBS)).astype(np.float32)
        actions = rng.integers(CHOICES.n, size=(ROWS, MEMBERS))
        dones = np.isin(np.arange(ROWS), [3, 9])
        each = rng.normal(size=(ROWS, 1 if same_rewards else MEMBERS)).astype(np.float32)
        each = np.broadcast_to(each, (ROWS, MEMBERS))
        rows = {
            "obs": obs,
            "actions": actions,
            "new_obs": new_obs,
            "dones": dones,
            "infos": [{"_group_rewards": list(r)} for r in each],
            "eps_id": np.arange(ROWS),
            "unroll_id": np.arange(ROWS),
            "agent_index": np.zeros(ROWS, int),
        }
        learned = stats(policy.learn_on_batch(SampleBatch(rows)))
        columns = {
            "obs": obs,
            "actions": actions,
            "rewards": each[:, 0] if same_rewards else each.sum(axis=1),
            "new_obs": new_obs,
            "terminated": dones.astype(np.float32),
            "discounts": np.full(ROWS, policy.config["gamma"], np.float32),
        }
        taken.append({"rows": {n: array(x) for n, x in columns.items()}, "update_target": False, "timestep": 0})
    losses = {"loss": learned["loss"], "mean_q": learned["q_taken_mean"]}
    own = {**sizes, **settings, "model": {"fcnet_hiddens": HIDDEN}}
    seen = {"observation_space": {"members": MEMBERS, "shape": [OBS]}}
    return case("QMIX", argument, "QMIX", own, action_space, before, taken, qmix_weights(policy), losses, differs, **seen)


def short(cases):
    """Leaves out weights that are those of the first case."""
    first = cases[0]
    for other in cases[1:]:
        for key in ("before", "target"):
            if other[key] is not None and other[key] == first[key]:
                other[key] = "first"
    return cases


def same(argument, changes, build=ppo_case, **more):
    """A case whose changes have the same names in pavlov."""
    return build(argument, changes, changes, **more)


def ppo_cases():
    yield same("defaults", {})
    yield same("Discrete", {}, action_space=CHOICES)
    yield same("MultiDiscrete", {}, action_space=SEVERAL)
    yield same("kl_coeff=0", {"kl_coeff": 0.0})
    yield same("kl_coeff=2", {"kl_coeff": 2.0})
    yield same("kl_coeff=2, Discrete", {"kl_coeff": 2.0}, action_space=CHOICES)
    yield same("kl_coeff=2, MultiDiscrete", {"kl_coeff": 2.0}, action_space=SEVERAL)
    yield same("clip_param=0.05", {"clip_param": 0.05})
    yield same("vf_clip_param=1", {"vf_clip_param": 1.0})
    yield same("vf_loss_coeff=0.3", {"vf_loss_coeff": 0.3})
    yield same("entropy_coeff=0.05", {"entropy_coeff": 0.05})
    yield same("entropy_coeff=0.05, Discrete", {"entropy_coeff": 0.05}, action_space=CHOICES)
    yield same("grad_clip=0.1", {"grad_clip": 0.1})
    yield same("lr=0.01", {"lr": 0.01})
    yield same("model.vf_share_layers=True", {}, model={"vf_share_layers": True})
    yield same("model.free_log_std=True", {}, model={"free_log_std": True})
    yield same("model.fcnet_activation=relu", {}, model={"fcnet_activation": "relu"})


def a2c_cases():
    yield a2c_case("defaults", {}, {})
    yield a2c_case("Discrete", {}, {}, CHOICES)
    yield a2c_case("MultiDiscrete", {}, {}, SEVERAL)
    yield a2c_case("grad_clip=1", {"grad_clip": 1.0}, {})
    yield a2c_case("grad_clip=None", {"grad_clip": None}, {})
    yield a2c_case("vf_loss_coeff=0.1", {"vf_loss_coeff": 0.1}, {})
    yield a2c_case("entropy_coeff=0", {"entropy_coeff": 0.0}, {})


def dqn_cases():
    yield same("defaults", {}, dqn_case)
    yield same("double_q=False", {"double_q": False}, dqn_case)
    yield same("dueling=False", {"dueling": False}, dqn_case)
    yield same("dueling=False, double_q=False", {"dueling": False, "double_q": False}, dqn_case)
    yield same("hiddens=[], dueling=False", {"dueling": False, "hiddens": []}, dqn_case)
    atoms = {"num_atoms": 7, "v_min": -3.0, "v_max": 3.0}
    yield same("num_atoms=7", atoms, dqn_case)
    yield same("num_atoms=7, dueling=False", {**atoms, "dueling": False}, dqn_case)
    yield same("num_atoms=7, double_q=False", {**atoms, "double_q": False}, dqn_case)
    yield same("num_atoms=7, importance weights", atoms, dqn_case, weights=True)
    yield same("importance weights", {}, dqn_case, weights=True)
    yield same("n_step=3", {"n_step": 3}, dqn_case)
    yield same("gamma=0.5", {"gamma": 0.5}, dqn_case)
    yield same("grad_clip=0.1", {"grad_clip": 0.1}, dqn_case)
    yield same("adam_epsilon=0.01", {"adam_epsilon": 0.01}, dqn_case)
    yield same("update_target", {"target_network_update_freq": 1}, dqn_case, update_target=True)


def sac_cases():
    yield same("defaults", {}, sac_case)
    yield same("twin_q=False", {"twin_q": False}, sac_case)
    yield same("initial_alpha=0.1", {"initial_alpha": 0.1}, sac_case)
    yield same("target_entropy=-0.5", {"target_entropy": -0.5}, sac_case)
    yield same("tau=0.5", {"tau": 0.5}, sac_case)
    yield same("n_step=3", {"n_step": 3}, sac_case)
    yield same("grad_clip=0.05", {"grad_clip": 0.05}, sac_case)
    yield same("importance weights", {}, sac_case, weights=True)
    rates = {"actor_learning_rate": 0.01, "critic_learning_rate": 0.005, "entropy_learning_rate": 0.02}
    yield same("optimization", {"optimization": rates}, sac_case)
    yield sac_case("defaults, log_prob_epsilon=0 here", {}, {"log_prob_epsilon": 0.0})
    differs = (
        "Ray gives the critics actions between the bounds of the action space, pavlov in [-1, 1]; and Ray's log-probability lacks the "
        "logarithm of half the width."
    )
    yield same("bounds of 2", {}, sac_case, action_space=WIDE, differs=differs, widest=2.0)


def sac_discrete_cases():
    yield same("Discrete, twin_q=False", {"twin_q": False}, sac_case, action_space=CHOICES)
    yield same(
        "Discrete", {}, sac_case, action_space=CHOICES,
        differs="Ray's actor of discrete actions follows the first critic only, pavlov's the smaller value of both.",
    )
    yield same("Discrete, twin_q=False, initial_alpha=0.1", {"twin_q": False, "initial_alpha": 0.1}, sac_case, action_space=CHOICES)
    yield same("Discrete, twin_q=False, target_entropy=0.5", {"twin_q": False, "target_entropy": 0.5}, sac_case, action_space=CHOICES)
    yield same("Discrete, twin_q=False, importance weights", {"twin_q": False}, sac_case, action_space=CHOICES, weights=True)


def critics_clipped_apart():
    return "Ray clips the gradient of both critics together, pavlov that of each network by itself."


def ddpg_cases():
    def one(argument, changes, **more):
        return ddpg_case("DDPG", argument, changes, changes, **more)

    yield ddpg_case("DDPG", "defaults, l2_reg=0 here", {"l2_reg": 1e-6}, {})
    yield one("twin_q=True", {"twin_q": True})
    yield one("policy_delay=2", {"policy_delay": 2}, steps=3)
    yield one("smooth_target_policy=True", {"smooth_target_policy": True})
    yield one("use_huber=True", {"use_huber": True})
    yield one("use_huber=True, huber_threshold=0.5, twin_q=True", {"use_huber": True, "huber_threshold": 0.5, "twin_q": True})
    yield one("l2_reg=0", {"l2_reg": 0.0})
    yield ddpg_case("DDPG", "l2_reg=0.1, twin_q=True, l2_reg=0 here", {"l2_reg": 0.1, "twin_q": True}, {"twin_q": True})
    differs = "The weight decay of Ray's torch policy has no gradient: it is computed from a `state_dict`, whose tensors are detached."
    yield one("l2_reg=0.1", {"l2_reg": 0.1}, differs=differs)
    yield one("l2_reg=1e-6", {"l2_reg": 1e-6}, differs=differs)
    yield one("tau=0.5", {"tau": 0.5})
    yield one("n_step=3", {"n_step": 3})
    yield one("importance weights", {}, weights=True)
    yield one("grad_clip=0.1", {"grad_clip": 0.1})
    yield one("grad_clip=0.1, twin_q=True", {"grad_clip": 0.1, "twin_q": True}, differs=critics_clipped_apart())
    yield one("actor_lr=0.01, critic_lr=0.02", {"actor_lr": 0.01, "critic_lr": 0.02})
    differs = "Ray gives the critics actions between the bounds of the action space, pavlov in [-1, 1]."
    yield one("bounds of 2", {}, action_space=WIDE, differs=differs, widest=2.0)


def td3_cases():
    def one(argument, changes, **more):
        return ddpg_case("TD3", argument, changes, changes, **more)

    yield one("defaults", {})
    yield one("policy_delay=1", {"policy_delay": 1})
    yield one("policy_delay=3", {"policy_delay": 3}, steps=4)
    yield one("target_noise=1", {"target_noise": 1.0})
    yield one("target_noise_clip=0.05", {"target_noise_clip": 0.05})
    yield one("smooth_target_policy=False", {"smooth_target_policy": False})
    yield one("twin_q=False", {"twin_q": False})
    yield one("tau=0.5", {"tau": 0.5})
    yield one("importance weights", {}, weights=True)


def impala_cases():
    yield same("defaults", {}, impala_case)
    yield same("MultiDiscrete", {}, impala_case, action_space=SEVERAL)
    yield same("Box", {}, impala_case, action_space=BOX)
    yield same("vtrace_clip_rho_threshold=0.5", {"vtrace_clip_rho_threshold": 0.5}, impala_case)
    yield same("vtrace_clip_rho_threshold=3", {"vtrace_clip_rho_threshold": 3.0}, impala_case)
    yield same("vtrace_clip_pg_rho_threshold=0.5", {"vtrace_clip_pg_rho_threshold": 0.5}, impala_case)
    yield same("grad_clip=0.5", {"grad_clip": 0.5}, impala_case)
    yield same("entropy_coeff=0.1", {"entropy_coeff": 0.1}, impala_case)
    yield same("vf_loss_coeff=0.1", {"vf_loss_coeff": 0.1}, impala_case)
    yield same("gamma=0.8", {"gamma": 0.8}, impala_case)
    # Ray's torch policy passes `decay` to torch as the weight decay; the decay of the second moment is always 0.99.
    off = {"opt_type": "rmsprop", "decay": 0.0}
    yield impala_case("opt_type=rmsprop, decay=0", off, {"opt_type": "rmsprop"})
    moving = {"momentum": 0.9, "epsilon": 0.01}
    yield impala_case("opt_type=rmsprop, decay=0, momentum=0.9, epsilon=0.01", {**off, **moving}, {"opt_type": "rmsprop", **moving})
    differs = "Ray's torch policy takes RMSprop's `decay` as a weight decay of 0.99; in pavlov it is the decay of the second moment."
    yield same("opt_type=rmsprop", {"opt_type": "rmsprop"}, impala_case, differs=differs)


def qmix_cases():
    yield same("defaults", {}, qmix_case)
    yield same("double_q=False", {"double_q": False}, qmix_case)
    yield qmix_case("grad_norm_clipping=0.1", {"grad_norm_clipping": 0.1}, {"grad_clip": 0.1})
    yield same("optim_alpha=0.9, optim_eps=0.01", {"optim_alpha": 0.9, "optim_eps": 0.01}, qmix_case)
    yield same("mixer=vdn", {"mixer": "vdn"}, qmix_case)
    yield same("mixer=vdn, double_q=False", {"mixer": "vdn", "double_q": False}, qmix_case)
    yield same("mixer=None", {"mixer": None}, qmix_case)
    differs = (
        "The members' rewards differ: Ray moves the team's value towards the reward of each member, pavlov towards their sum."
    )
    yield same("members' rewards differ", {}, qmix_case, same_rewards=False, differs=differs)
    differs = "The members' rewards differ: each learns from its own in Ray, from the sum in pavlov."
    yield same("mixer=None, members' rewards differ", {"mixer": None}, qmix_case, same_rewards=False, differs=differs)


def layer(arrays):
    x = np.concatenate([a.ravel() for a in arrays]).astype(np.float64)
    shape = arrays[0].shape
    norms = None
    if len(shape) == 2:
        # Of all units the norm of the incoming weights: equal ones are Ray's `normc_initializer`.
        each = np.concatenate([np.sqrt((a.astype(np.float64) ** 2).sum(axis=1)) for a in arrays])
        norms = float(each.mean()) if each.std() < 1e-4 * each.mean() else None
    return {
        "mean": float(x.mean()),
        "std": float(x.std()),
        "max": float(np.abs(x).max()),
        "orthogonal": False,
        "normc": norms,
    }


def initial(seeds=40):
    """The distribution of fresh weights in every layer, over many seeds."""
    hidden = [32, 24]
    model = {"model": {"fcnet_hiddens": hidden}}
    both = {"policy_model": model["model"], "Q_model": model["model"]}
    apart = {"actor_hiddens": hidden, "critic_hiddens": hidden}
    team = spaces.Tuple([SEEN] * MEMBERS)
    own = {"obs_space": get_preprocessor(team)(team).observation_space}
    made = [
        ("PPO", "PPO", ppo_torch_policy.PPOTorchPolicy, ppo.DEFAULT_CONFIG, BOX, model, actor_critic, {}),
        ("PPO, Discrete", "PPO", ppo_torch_policy.PPOTorchPolicy, ppo.DEFAULT_CONFIG, CHOICES, model, actor_critic, {}),
        ("IMPALA", "IMPALA", vtrace_torch_policy.VTraceTorchPolicy, impala.DEFAULT_CONFIG, CHOICES, model, actor_critic, {}),
        ("DQN", "DQN", dqn_torch_policy.DQNTorchPolicy, dqn.DEFAULT_CONFIG, CHOICES, model, dqn_weights, {}),
        ("SAC", "SAC", sac_torch_policy.SACTorchPolicy, sac.DEFAULT_CONFIG, BOX, both, sac_weights, {}),
        ("SAC, Discrete", "SAC", sac_torch_policy.SACTorchPolicy, sac.DEFAULT_CONFIG, CHOICES, both, sac_weights, {}),
        ("TD3", "TD3", ddpg_torch_policy.DDPGTorchPolicy, td3.TD3_DEFAULT_CONFIG, BOX, apart, ddpg_weights, {}),
        ("DDPG", "DDPG", ddpg_torch_policy.DDPGTorchPolicy, ddpg.DEFAULT_CONFIG, BOX, apart, ddpg_weights, {}),
    ]
    found = []
    for algorithm, trainer, cls, default, action_space, changes, weights_of, more in made:
        drawn = [weights_of(make(cls, default, action_space, changes, fresh=seed, **more))[0] for seed in range(seeds)]
        arrays = {n: [np.array(d[n]["data"], np.float32).reshape(d[n]["shape"]) for d in drawn] for n in drawn[0]}
        layers = {name: layer(of) for name, of in arrays.items()}
        found.append(
            {"algorithm": algorithm, "trainer": trainer, "base": None, "action_space": space(action_space), "layers": layers}
        )
    # QMIX's agent of Ray is recurrent: only its mixer has a counterpart.
    mixers = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        mixer = qmix_policy.QMixer(MEMBERS, (OBS, MEMBERS), 32)
        parts = {"w1": mixer.hyper_w_1, "b1": mixer.hyper_b_1, "w2": mixer.hyper_w_final, "b2.0": mixer.V[0], "b2.1": mixer.V[2]}
        mixers.append({f"mixer.{n}.{k}": getattr(part, k).detach().numpy() for n, part in parts.items() for k in ("weight", "bias")})
    layers = {name: layer([m[name] for m in mixers]) for name in mixers[0]}
    found.append(
        {"algorithm": "QMIX", "trainer": "QMIX", "base": None, "action_space": {"multi_discrete": [3, 3]}, "layers": layers}
    )
    return found


def main():
    HERE.mkdir(exist_ok=True)
    files = {
        "ppo": ppo_cases,
        "a2c": a2c_cases,
        "dqn": dqn_cases,
        "sac": sac_cases,
        "sac_discrete": sac_discrete_cases,
        "ddpg": ddpg_cases,
        "td3": td3_cases,
        "impala": impala_cases,
        "qmix": qmix_cases,
    }
    for name, cases in files.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        text = json.dumps(short(list(cases())), separators=(",", ":"))
        (HERE / f"{name}.json").write_text(text + "\n")
        print(name, len(text))
    if len(sys.argv) > 1 and "initial" not in sys.argv[1:]:
        return
    text = json.dumps(initial(), indent=1)
    (HERE.parent / "ray113_initial.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
