"""pavlov's algorithms as a trainable of Ray Tune, in the process of the trial."""

import json
from typing import Any

from ray import tune

from . import _native
from .errors import ConfigError, NotFoundError
from .training_env import TrainingEnv, resolve


class Trainable(tune.Trainable):
    """A trial that trains one of pavlov's algorithms.

    Its settings are those of the algorithm by pavlov's names, and beside them `algorithm`, `env` (whatever a model takes: an
    id, an environment, or a function that makes one) and, optionally, `preset`::

        from pavlov_rl.tune import Trainable
        from ray import tune

        space = {"algorithm": "PPO", "env": "CartPole-v1", "lr": tune.loguniform(1e-4, 1e-2)}
        tune.Tuner(Trainable, param_space=space).fit()
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Makes the run."""
        self._algorithm, self._env, layers = _read(config)
        self._made = config["algorithm"], config["env"]
        self._native = self._run(layers)

    def _run(self, layers: str) -> _native.NativeAlgorithm:
        # Ray writes the results, and says where checkpoints go.
        return _native.NativeAlgorithm(self._algorithm, self._env.id, layers, self._env.in_python(), None)

    def step(self) -> dict[str, Any]:
        """Trains one iteration; returns its result."""
        result: dict[str, Any] = json.loads(self._native.train())
        # Ray has the settings already.
        result.pop("config", None)
        return {name: float("nan") if value is None else value for name, value in result.items()}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Saves everything that later iterations depend on."""
        self._native.save(checkpoint_dir)

    def load_checkpoint(self, checkpoint_dir: Any) -> None:
        """Continues from what `save_checkpoint` wrote."""
        checkpoint = _native.latest_checkpoint(checkpoint_dir)
        if checkpoint is None:
            raise NotFoundError(f"{checkpoint_dir}: there is no whole checkpoint of pavlov's in it")
        self._native.restore(checkpoint)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begins anew with other settings of the same algorithm and environment."""
        if self._made != (new_config["algorithm"], new_config["env"]):
            return False
        self._native.stop()
        self._native = self._run(_read(new_config)[2])
        return True

    def cleanup(self) -> None:
        """Ends the run."""
        self._native.stop()

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> Any:
        """What the settings ask for: all of it on one machine, as workers are threads or processes of the trial."""
        algorithm, env, layers = _read(config)
        return tune.PlacementGroupFactory([json.loads(_native.resources(algorithm, env.id, layers))])


def _read(config: dict[str, Any]) -> tuple[str, TrainingEnv, str]:
    """The algorithm, the environment and the layers of settings of a trial."""
    settings = dict(config)
    algorithm, env, preset = (settings.pop(name, None) for name in ("algorithm", "env", "preset"))
    if algorithm is None:
        raise ConfigError('the settings of the trial have no `algorithm`; add e.g. "algorithm": "PPO"')
    if env is None:
        raise ConfigError('the settings of the trial have no `env`; add e.g. "env": "CartPole-v1"')
    found = resolve(env)
    own = found.settings()
    if found.stepper is None:
        # A native environment has as many workers and copies as the settings say.
        own = {name: value for name, value in own.items() if name == "env_config"}
    layers = [["preset", json.loads(_native.preset(preset)) if preset else {}], ["the trial", settings | own]]
    return algorithm, found, json.dumps(layers, default=lambda number: number.item())
