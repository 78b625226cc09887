"""Native environments with several agents as PettingZoo's `ParallelEnv`."""

import json
from typing import Any

import numpy as np
import pettingzoo

from . import _native
from .errors import ConfigError
from .picklable import Picklable
from .settings import encode
from .spaces import Space, action_dtype, action_row, decode, one, width

# The scalars of PettingZoo's boards, which are bytes in the Rust half.
_BOARDS: dict[str, dict[str, type[np.generic]]] = {
    "connect_four_v3": {"action_mask": np.int8, "observation": np.int8},
    "go_v5": {"action_mask": np.int8, "observation": np.bool_},
    "tictactoe_v3": {"action_mask": np.int8, "observation": np.int8},
}


def _newest(id: str) -> str:
    """The id itself, or the newest of that name."""
    known = [known for known, *_ in _native.multi_agent_specs()]
    versions = [known for known in known if known.rpartition("_v")[0] == id]
    return versions[-1] if id not in known and versions else id


class ParallelEnv(Picklable[_native.NativeAgents], pettingzoo.ParallelEnv[str, Any, Any]):
    """A native environment with several agents, equal to PettingZoo's and mpe2's where they have it.

    In a game of turns, `step` reads the action of the agent whose turn it is, and `infos[agent]["active_agent"]` says which
    that is, as in PettingZoo's own conversion of such games. Action masks are in the observations, where PettingZoo has them
    there, and in the infos.
    """

    _of_native = ("_obs", "_actions", "_action_rows")

    def __init__(self, id: str, render_mode: str | None = None, **config: Any) -> None:
        id = self._id = _newest(id)
        if render_mode not in (None, "rgb_array"):
            raise ConfigError(f"`render_mode` is {render_mode!r}, but {id} has 'rgb_array'")
        self._config = config
        self._make_native()
        self.render_mode = render_mode
        self.metadata = {"name": id, "render_modes": ["rgb_array"], "render_fps": int(self._native.render_fps or 30)}
        self.agents: list[str] = []
        self._acting: list[str] = []

    def _make_native(self) -> None:
        self._native = _native.NativeAgents(self._id, encode(self._id, self._config))
        if not hasattr(self, "possible_agents"):
            self.possible_agents = self._native.agents
            self._observation_spaces = self._spaces(self._native.observation_spaces, _BOARDS.get(self._id))
            self._action_spaces = self._spaces(self._native.action_spaces, None)
        self._obs = self._cut(self._native.array(), self._observation_spaces)
        widths = [width(space) for space in self._action_spaces.values()]
        dtype = action_dtype(next(iter(self._action_spaces.values())))
        self._actions = np.zeros(sum(widths), dtype)
        self._action_rows = self._cut(self._actions, self._action_spaces)

    def observation_space(self, agent: str) -> Space:
        """What an agent can see."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        """What an agent can do."""
        return self._action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Starts an episode. Without a seed the random stream goes on. As in PettingZoo's environments, `options` is not read."""
        self._take(self._native.reset(seed))
        return self._observations(self.agents), self._infos(self.agents)

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        """Takes the actions of the agents in the episode."""
        for agent in self._acting:
            if agent not in actions:
                raise ConfigError(f"`actions` has none for {agent}, who acts now; it has them for {list(actions)}")
            action_row(self._action_spaces[agent], actions[agent], self._action_rows[agent], f"the action of {agent}")
        took_part = self.agents
        rewards, terminated, truncated = self._take(self._native.step(self._actions))
        return (
            self._observations(took_part),
            {agent: rewards[agent] for agent in took_part},
            {agent: terminated[agent] for agent in took_part},
            {agent: truncated[agent] for agent in took_part},
            self._infos(took_part),
        )

    def render(self) -> Any:
        """A picture of the current state, if `render_mode` is `rgb_array`."""
        return None if self.render_mode is None else self._native.render()

    def save_state(self) -> bytes:
        """Everything that later steps depend on, random stream included."""
        return self._native.save_state()

    def load_state(self, state: bytes) -> dict[str, Any]:
        """Goes on from what `save_state` of an environment with the same settings gave; returns the observations there."""
        self._take(self._native.load_state(state))
        return self._observations(self.agents)

    def _spaces(self, described: list[str], types: dict[str, type[np.generic]] | None) -> dict[str, Space]:
        spaces = (decode(json.loads(space), types) for space in described)
        return dict(zip(self.possible_agents, spaces))

    def _cut(self, row: Any, spaces: dict[str, Space]) -> dict[str, Any]:
        """The part of each agent."""
        ends = np.cumsum([width(space) for space in spaces.values()])
        return dict(zip(spaces, np.split(row, ends[:-1])))

    def _take(
        self, told: tuple[list[float], list[bool], list[bool], list[bool], list[bool]]
    ) -> tuple[dict[str, float], dict[str, bool], dict[str, bool]]:
        rewards, terminated, truncated, alive, acting = told
        self.agents = [agent for agent, lives in zip(self.possible_agents, alive) if lives]
        self._acting = [agent for agent, acts in zip(self.possible_agents, acting) if acts]
        agents = self.possible_agents
        return dict(zip(agents, rewards)), dict(zip(agents, terminated)), dict(zip(agents, truncated))

    def _observations(self, agents: list[str]) -> dict[str, Any]:
        return {agent: one(self._observation_spaces[agent], self._obs[agent]) for agent in agents}

    def _infos(self, agents: list[str]) -> dict[str, dict[str, Any]]:
        infos: dict[str, dict[str, Any]] = {}
        in_turn = len(self._acting) < len(self.agents)
        for agent in agents:
            infos[agent] = {"active_agent": self._acting[0]} if in_turn else {}
            mask = self._native.action_mask(self.possible_agents.index(agent))
            if mask is not None:
                infos[agent]["action_mask"] = mask
        return infos
