"""Writes one update by Stable-Baselines3 or sb3-contrib per case, as fixtures that `peers.rs` compares pavlov with.

Run it in a Python that has stable-baselines3 and sb3-contrib: `python tests/golden/peers/sb3.py`. It builds each model by the
library's own constructor, fills the library's own buffer with made-up rows, and calls the library's own `train()`. Random
numbers that are drawn within an update are replaced by recorded ones.
"""

import json
import pathlib
import sys

import gymnasium
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from fixture import array, numbers
from gymnasium import spaces
from sb3_contrib import TQC
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.logger import configure
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

HERE = pathlib.Path(__file__).parent / "sb3"
OBS = 3
ROWS = 16
HIDDEN = [5, 4]
BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)
CHOICES = spaces.Discrete(3)
SEVERAL = spaces.MultiDiscrete([2, 3])


class Stub(gymnasium.Env):
    """The spaces of an environment that is never stepped."""

    def __init__(self, action_space, shape):
        self.observation_space = spaces.Box(-10.0, 10.0, shape, np.float32)
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        return np.zeros(self.observation_space.shape, np.float32), {}

    def action_masks(self):
        return np.ones(self.action_space.n, bool)


class SmallCNN(BaseFeaturesExtractor):
    """One convolution in place of `NatureCNN`, whose weights would be millions of numbers in a fixture."""

    def __init__(self, observation_space):
        super().__init__(observation_space, 12)
        convolution = torch.nn.Conv2d(observation_space.shape[0], 3, 3)
        self.cnn = torch.nn.Sequential(convolution, torch.nn.ReLU(), torch.nn.Flatten())

    def forward(self, observations):
        return self.cnn(observations)


def linear(name, *layers):
    """Linear layers that are one layer here: their rows one after the other."""
    return {
        f"{name}.weight": array(torch.cat([layer.weight for layer in layers])),
        f"{name}.bias": array(torch.cat([layer.bias for layer in layers])),
    }


def linears(name, module, *, out=False):
    """The linear layers of a `Sequential`; with `out` the last is the output layer."""
    found = [layer for layer in module if isinstance(layer, torch.nn.Linear)]
    names = [str(i) for i in range(len(found))]
    if out:
        names[-1] = "out"
    return {k: v for n, layer in zip(names, found) for k, v in linear(f"{name}.{n}", layer).items()}


def deviations(log_std):
    """The parameters of gSDE: here those of the first component of an action for all features come first."""
    return array(log_std.T.flatten() if log_std.ndim == 2 else log_std)


def actor_critic(model):
    p = model.policy
    extractor = p.mlp_extractor
    named = {**linears("actor", extractor.policy_net), **linear("actor.out", p.action_net)}
    if hasattr(p, "log_std"):
        named["actor.log_std"] = deviations(p.log_std)
    if hasattr(p, "lstm_actor"):
        names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        named |= {f"actor.lstm.{name}": array(getattr(p.lstm_actor, f"{name}_l0")) for name in names}
    return {**named, **linears("critic", extractor.value_net), **linear("critic.out", p.value_net)}


def convolutions(name, module):
    found = [layer for layer in module.modules() if isinstance(layer, torch.nn.Conv2d)]
    return {k: v for i, layer in enumerate(found) for k, v in linear(f"{name}.conv{i}", layer).items()}


def critics(critic):
    return {k: v for i, q in enumerate(critic.q_networks) for k, v in linears(f"q{i + 1}", q, out=True).items()}


def sac(model):
    actor = model.actor
    alpha = model.log_ent_coef if model.log_ent_coef is not None else torch.log(model.ent_coef_tensor).reshape(1)
    named = linears("actor", actor.latent_pi)
    if actor.use_sde:
        named |= {**linear("actor.out", actor.mu[0]), "actor.log_std": deviations(actor.log_std)}
    else:
        named |= linear("actor.out", actor.mu, actor.log_std)
    of_actor, of_critic = convolutions("actor.features", actor.features_extractor), "q_features"
    if model.policy.share_features_extractor:
        of_critic = "actor.features"
    target = {**critics(model.critic_target), **convolutions(of_critic, model.critic_target.features_extractor)}
    of_critic = convolutions(of_critic, model.critic.features_extractor)
    return {**named, **of_actor, **of_critic, **critics(model.critic), "log_alpha": array(alpha)}, target


def td3(model):
    def named(actor, critic):
        of_critic = "actor.features" if model.policy.share_features_extractor else "q_features"
        of_both = {**convolutions("actor.features", actor.features_extractor), **convolutions(of_critic, critic.features_extractor)}
        return {**linears("actor", actor.mu, out=True), **of_both, **critics(critic)}

    return named(model.actor, model.critic), named(model.actor_target, model.critic_target)


def dqn(model):
    def named(net):
        layers = [layer for layer in net.q_net if isinstance(layer, torch.nn.Linear)]
        return {**linears("model", layers[:-1]), **linear("advantage.0", layers[-1])}

    return named(model.q_net), named(model.q_net_target)


def space(given):
    if isinstance(given, spaces.Box):
        return {"low": numbers(given.low), "high": numbers(given.high)}
    return {"discrete": int(given.n)} if isinstance(given, spaces.Discrete) else {"multi_discrete": numbers(given.nvec)}


def version(model):
    library = sb3_contrib if type(model).__module__.startswith("sb3_contrib") else stable_baselines3
    return f"{library.__name__.replace('_', '-')} {library.__version__}"


def case(model, argument, trainer, base, settings, before, steps, after, losses, equal=True):
    both = [b if isinstance(b, tuple) else (b, None) for b in (before, after)]
    return {
        "library": version(model),
        "algorithm": type(model).__name__,
        "argument": argument,
        "trainer": trainer,
        "base": base,
        "settings": settings,
        "observation_space": {"shape": list(model.observation_space.shape)},
        "action_space": space(model.action_space),
        "before": both[0][0],
        "target": both[0][1],
        "steps": steps,
        "after": both[1][0],
        "target_after": both[1][1],
        "losses": {name: float(value) for name, value in losses.items()},
        "equal": equal,
    }


def logged(model, names, only_if=True):
    """Statistics that the library logged, by their names here."""
    values = model.logger.name_to_value
    found = {here: (f"train/{there}", sign) for here, (there, sign) in names.items()}
    return {here: sign * values[there] for here, (there, sign) in found.items() if there in values and only_if}


def make(cls, action_space, arguments, kwargs=None, policy="MlpPolicy", shape=(OBS,)):
    torch.manual_seed(7)
    kwargs = {"net_arch": HIDDEN, **(kwargs or {})}
    model = cls(policy, Stub(action_space, shape), seed=7, device="cpu", policy_kwargs=kwargs, **arguments)
    model.set_logger(configure(None, []))
    with torch.no_grad():
        # Biases are 0 in a fresh network, and a small output layer hides mistakes before it. The actor of SAC is moved less: an
        # action near its bound has a log-probability that rests on the last digits of `1 - a^2`, in both libraries.
        for name, p in model.policy.named_parameters():
            is_small = "target" in name or (cls in (SAC, TQC) and name.startswith("actor"))
            p.add_(torch.randn_like(p) * (0.1 if is_small else 0.3))
    return model


def on_policy(cls, argument, arguments, settings, action_space=BOX, kwargs=None, masks=False, lstm=False, equal=True):
    """One `train()` of PPO or of what learns like it."""
    rng = np.random.default_rng(3)
    steps = ROWS if cls is not A2C else 5
    sizes = {"n_steps": steps} if cls is A2C else {"n_steps": steps, "batch_size": steps, "n_epochs": 1}
    model = make(cls, action_space, sizes | arguments, kwargs, "MlpLstmPolicy" if lstm else "MlpPolicy")
    policy, buffer = model.policy, model.rollout_buffer
    obs = rng.normal(size=(steps, OBS)).astype(np.float32)
    starts = np.isin(np.arange(steps), [0, 6]).astype(np.float32)
    mask = rng.random((steps, 3)) < 0.6
    mask[np.arange(steps), rng.integers(3, size=steps)] = True
    width = action_space.shape[0] if action_space.shape else 1
    if action_space is BOX:
        actions = rng.normal(size=(steps, width)).astype(np.float32)
    elif masks:
        actions = np.array([[rng.choice(np.flatnonzero(row))] for row in mask])
    else:
        actions = rng.integers(action_space.n if action_space is CHOICES else action_space.nvec, size=(steps, width))
    acted = torch.as_tensor(actions).flatten() if action_space is CHOICES else torch.as_tensor(actions)
    state = None
    with torch.no_grad():
        if lstm:
            zeros = torch.zeros(policy.lstm_hidden_state_shape)
            state = RNNStates((zeros + 0.3, zeros - 0.2), (zeros, zeros))
            _, logp, _ = policy.evaluate_actions(torch.as_tensor(obs), acted, state, torch.as_tensor(starts))
        elif masks:
            _, logp, _ = policy.evaluate_actions(torch.as_tensor(obs), acted, torch.as_tensor(mask))
        else:
            _, logp, _ = policy.evaluate_actions(torch.as_tensor(obs), acted)
    # A2C learns from what the policy has just done, PPO also from what an earlier one did.
    moved = rng.normal(size=steps).astype(np.float32) * (0.0 if cls is A2C else 0.15)
    old = (logp.numpy() + moved).astype(np.float32)
    values = rng.normal(size=steps).astype(np.float32)
    rewards = rng.normal(size=steps).astype(np.float32)
    for t in range(steps):
        more = {"action_masks": mask[t]} if masks else {"lstm_states": state} if lstm else {}
        one = slice(t, t + 1)
        said = torch.as_tensor(values[one]), torch.as_tensor(old[one])
        buffer.add(obs[one], actions[one], rewards[one], starts[one], *said, **more)
    buffer.compute_returns_and_advantage(last_values=torch.tensor([0.4]), dones=np.array([0.0]))
    rows = {
        "obs": array(obs),
        "actions": array(actions if action_space is not CHOICES else actions.ravel()),
        "action_logp": array(old),
        "vf_preds": array(values),
        "advantages": array(buffer.advantages.ravel()),
        "value_targets": array(buffer.returns.ravel()),
    }
    if masks:
        rows["action_mask"] = array(mask)
    step = {"rows": rows, "update_target": False, "timestep": 0}
    if lstm:
        rows["resets"] = array(starts)
        rows["state_in"] = array(torch.cat([state.pi[0], state.pi[1]], 2).reshape(1, -1))
        step["sequences"] = [steps]
    before = actor_critic(model)
    randint, np.random.randint = np.random.randint, lambda *_, **__: 0
    try:
        model.train()
    finally:
        np.random.randint = randint
    epochs = arguments.get("n_epochs", 1)
    names = {"vf_loss": ("value_loss", 1), "entropy": ("entropy_loss", -1)}
    if cls is not A2C:
        names |= {"policy_loss": ("policy_gradient_loss", 1), "kl": ("approx_kl", 1), "total_loss": ("loss", 1)}
    settings = {"train_batch_size": steps, "sgd_minibatch_size": steps, "num_sgd_iter": epochs, **settings}
    settings.setdefault("model", {}).setdefault("fcnet_hiddens", HIDDEN)
    again = {"rows": "same", "update_target": False, "timestep": 0}
    if lstm:
        again["sequences"] = [steps]
    steps = [step] + [again] * (epochs - 1)
    made = case(model, argument, "PPO", "ppo-sb3", settings, before, steps, actor_critic(model), logged(model, names, epochs == 1), equal)
    return {**made, "gae": {"rewards": numbers(rewards), "starts": numbers(starts), "last_value": 0.4}}


class Noise:
    """Standard normal numbers in place of those that torch would draw, in the order in which they are asked for."""

    def __init__(self, arrays):
        self.arrays = list(arrays)

    def __enter__(self):
        self.standard = torch.distributions.normal._standard_normal
        self.normal_ = torch.Tensor.normal_
        torch.distributions.normal._standard_normal = lambda shape, dtype, device: self.next(shape)
        torch.Tensor.normal_ = lambda tensor, mean=0, std=1: tensor.copy_(mean + std * self.next(tensor.shape))

    def next(self, shape):
        return torch.as_tensor(self.arrays.pop(0)).reshape(shape)

    def __exit__(self, *_):
        torch.distributions.normal._standard_normal = self.standard
        torch.Tensor.normal_ = self.normal_
        assert not self.arrays, "noise is left"


def off_policy(cls, argument, arguments, settings, kwargs=None, steps=1, equal=True, shape=(OBS,)):
    """Several steps of `train()` of an algorithm with a replay buffer."""
    rng = np.random.default_rng(5)
    action_space = CHOICES if cls is DQN else BOX
    model = make(cls, action_space, {"buffer_size": 1000, **arguments}, kwargs, shape=shape)
    read = {DQN: dqn, SAC: sac, TQC: sac, TD3: td3, DDPG: td3}[cls]
    gamma = np.float32(arguments.get("gamma", 0.99))
    listed, noises = [], []
    for _ in range(steps):
        obs, new_obs = rng.normal(size=(2, ROWS, *shape)).astype(np.float32)
        rewards = rng.normal(size=ROWS).astype(np.float32) * 2
        dones = (rng.random(ROWS) < 0.2).astype(np.float32)
        actions = rng.integers(3, size=(ROWS, 1)) if cls is DQN else rng.uniform(-1, 1, (ROWS, 2)).astype(np.float32)
        for t in range(ROWS):
            one = slice(t, t + 1)
            model.replay_buffer.add(obs[one], new_obs[one], actions[one], rewards[one], dones[one], [{}])
        noise, next_noise = rng.normal(size=(2, ROWS, 2)).clip(-1.5, 1.5).astype(np.float32)
        rows = {
            "obs": array(obs),
            "actions": array(actions.ravel() if cls is DQN else actions),
            "rewards": array(rewards),
            "new_obs": array(new_obs),
            "terminated": array(dones),
            "discounts": array(np.full(ROWS, gamma)),
        }
        if arguments.get("use_sde"):
            # One matrix serves all rows and both observations; the second that is drawn, for acting in copies, is not used.
            matrix = rng.normal(size=(HIDDEN[-1], 2)).clip(-1.5, 1.5).astype(np.float32)
            rows["noise"] = array(np.tile(matrix.T.ravel(), (ROWS, 1)))
            noises += [matrix, np.zeros_like(matrix)]
        elif cls in (SAC, TQC):
            rows |= {"noise": array(noise), "next_noise": array(next_noise)}
            noises += [noise, next_noise]
        elif cls is not DQN:
            rows["noise"] = array(noise)
            noises.append(noise)
        listed.append({"rows": rows, "update_target": cls is not DQN, "timestep": 0})
    buffer = model.replay_buffer
    drawn = iter(np.arange(steps * ROWS).reshape(steps, ROWS))
    buffer.sample = lambda batch_size, env=None: buffer._get_samples(next(drawn), env)
    before = read(model)
    with Noise(noises):
        model.train(gradient_steps=steps, batch_size=ROWS)
    if cls is DQN and "target_update_interval" in arguments:
        model._on_step()
        listed[-1]["update_target"] = True
    names = {"critic_loss": ("critic_loss", 1), "actor_loss": ("actor_loss", 1), "alpha_loss": ("ent_coef_loss", 1)}
    names |= {"alpha_value": ("ent_coef", 1), "loss": ("loss", 1)}
    trainer = "SAC" if cls is TQC else cls.__name__
    if cls in (SAC, TQC):
        settings = {**settings, "policy_model_config": {"fcnet_hiddens": HIDDEN}, "q_model_config": {"fcnet_hiddens": HIDDEN}}
    elif cls is DQN:
        settings = {**settings, "model": {"fcnet_hiddens": HIDDEN}}
    else:
        settings = {**settings, "actor_hiddens": HIDDEN, "critic_hiddens": HIDDEN}
    base = f"{trainer.lower()}-sb3"
    return case(model, argument, trainer, base, settings, before, listed, read(model), logged(model, names, steps == 1), equal)


def write(name, cases):
    first = cases[0]
    for other in cases[1:]:
        for key in ("before", "target"):
            if first[key] and other[key] == first[key]:
                other[key] = "first"
    text = json.dumps(cases, separators=(",", ":"))
    path = HERE / f"{name}.json"
    path.write_text(text.replace("},{\"library", "},\n{\"library") + "\n")
    print(f"{path.name}: {len(cases)} cases, {path.stat().st_size} bytes", file=sys.stderr)


def initial(cls, action_space, read, trainer):
    """The distribution of each layer's weights in fresh models of many seeds."""
    arguments = {"buffer_size": 10} if cls in (DQN, SAC, TD3) else {}
    drawn = {}
    for seed in range(40):
        kwargs = {"net_arch": [32, 24]}
        model = cls("MlpPolicy", Stub(action_space, (OBS,)), seed=seed, device="cpu", policy_kwargs=kwargs, **arguments)
        found = read(model)
        for name, given in (found[0] if isinstance(found, tuple) else found).items():
            drawn.setdefault(name, []).append(np.reshape(given["data"], given["shape"]))
    layers = {}
    for name, all_drawn in drawn.items():
        x = np.array(all_drawn)
        layers[name] = {"mean": x.mean(), "std": x.std(), "max": abs(x).max(), "orthogonal": bool(is_orthogonal(all_drawn[0]))}
    return {"algorithm": cls.__name__, "trainer": trainer, "base": f"{trainer.lower()}-sb3", "action_space": space(action_space), "layers": layers}


def is_orthogonal(x):
    """Whether the rows of a matrix, or its columns if there are fewer, are orthogonal and of equal length."""
    if x.ndim < 2 or len(x) == 1:
        return False
    gram = x @ x.T if len(x) <= x.shape[1] else x.T @ x
    return np.allclose(gram / gram[0, 0], np.eye(len(gram)), atol=1e-4)


def main():
    HERE.mkdir(exist_ok=True)
    from sb3_cases import all_cases

    for name, made in all_cases().items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            write(name, made())
    if not sys.argv[1:] or "initial" in sys.argv[1:]:
        fresh = [(PPO, BOX, actor_critic, "PPO"), (DQN, CHOICES, dqn, "DQN"), (SAC, BOX, sac, "SAC"), (TD3, BOX, td3, "TD3")]
        text = json.dumps([initial(*one) for one in fresh], indent=1)
        (HERE.parent / "sb3_initial.json").write_text(text + "\n")


if __name__ == "__main__":
    sys.modules["sb3"] = sys.modules["__main__"]
    main()
