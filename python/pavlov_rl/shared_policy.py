"""PettingZoo's environments with several agents, each of which is a copy for one policy that all agents share."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .errors import ConfigError
from .spaces import ADMISSION, Array
from .steppers import Stepper, seed_of


def is_parallel_env(env: Any) -> bool:
    """Whether an object has the interface of PettingZoo's `ParallelEnv`."""
    return hasattr(env, "possible_agents") and hasattr(env, "step") and not hasattr(env, "agent_iter")


def refuse_aec(env: Any) -> None:
    """Refuses an environment in which agents act in turns."""
    if hasattr(env, "agent_iter"):
        raise TypeError(
            f"{env} is an `AECEnv`, in which agents act in turns; give a `ParallelEnv`, which "
            "`pettingzoo.utils.aec_to_parallel` makes of one whose agents all act in every round"
        )


class AgentsStepper(Stepper):
    """The agents of a `ParallelEnv`, stepped together. All have equal spaces and stay to the end of an episode."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.agents: list[str] = list(env.possible_agents)
        self.num_envs = len(self.agents)
        first = self.agents[0]
        self.observation_space, self.action_space = env.observation_space(first), env.action_space(first)
        for agent in self.agents[1:]:
            for name, space in (("observation", self.observation_space), ("action", self.action_space)):
                own = getattr(env, f"{name}_space")(agent)
                if own != space:
                    raise ConfigError(
                        f"the agents have different {name} spaces, but one policy acts for all of them: {space} of {first}, "
                        f"{own} of {agent}; pad them with supersuit's `pad_{name}s_v0`"
                    )
        self._prepare()

    def _methods(self) -> Iterator[tuple[Any, str]]:
        of = getattr(self.env, "unwrapped", self.env)
        return ((of, name) for name in ("reset", "step"))

    def reset(self, seeds: Sequence[int] | None) -> Array:
        self._start(seeds)
        return self._obs.ravel()

    def step(self, actions: Array, seeds: Sequence[int] | None) -> tuple[Array, Array, Array, Array, Array]:
        rows = actions.reshape(self.num_envs, -1)
        chosen = {agent: self._action(rows[copy]) for copy, agent in enumerate(self.agents)}
        obs, rewards, terminated, truncated, told = self.env.step(chosen)
        infos = [dict(told.get(agent, {})) for agent in self.agents]
        for copy, agent in enumerate(self.agents):
            self._rewards[copy] = ADMISSION.reward(rewards[agent])
            self._terminated[copy], self._truncated[copy] = terminated[agent], truncated[agent]
        dones = self._terminated | self._truncated
        now = obs
        if dones.all():
            self._write(obs, self._final_obs)
            for copy, agent in enumerate(self.agents):
                cut = bool(self._truncated[copy] and not self._terminated[copy])
                infos[copy] |= {"terminal_observation": obs[agent], "TimeLimit.truncated": cut}
            now = self._start(seeds)
        elif dones.any():
            gone = self.agents[int(np.flatnonzero(dones)[0])]
            raise ConfigError(
                f"{gone} left the episode before the other agents did; wrap the environment with supersuit's "
                "`black_death_v3`, in which it stays and sees zeros"
            )
        else:
            self._write(obs, self._obs)
        self._keep(rows, [now[agent] for agent in self.agents], infos)
        return self._told()

    def _start(self, seeds: Sequence[int] | None) -> Any:
        obs, infos = self.env.reset(seed=seed_of(seeds, 0))
        if any("active_agent" in info for info in infos.values()) or any("action_mask" in info for info in infos.values()):
            raise ConfigError(
                "the environment is a game in turns, or one with action masks, which a shared policy does not read; train it "
                "with the command `pavlov train`, which takes PettingZoo's environments by the id `pz:module`"
            )
        self._write(obs, self._obs)
        return obs

    def _write(self, obs: Any, rows: Array) -> None:
        for copy, agent in enumerate(self.agents):
            self._write_row(obs[agent], rows[copy])
