# Gymnasium environments of several agents: their observations, actions and rewards are tuples with one part for each agent.


class TupleAgents:
    """Such an environment with the interface of PettingZoo's parallel ones. The agents are `agent_0`, `agent_1` and so on.

    A reward or a flag that is one value is every agent's. All agents act until the episode ends: one whose own flag is set
    earlier repeats its last action, which does not count for it any more.
    """

    def __init__(self, env):
        self.env = env
        observation_spaces, action_spaces = (spaces_of_agents(env, name) for name in ("observation_space", "action_space"))
        if len(observation_spaces) != len(action_spaces):
            raise TypeError(
                f"{env} has observations of {len(observation_spaces)} agents and actions of {len(action_spaces)}: both spaces "
                "must have one part for each agent"
            )
        self.possible_agents = [f"agent_{i}" for i in range(len(action_spaces))]
        self.observation_spaces = dict(zip(self.possible_agents, observation_spaces, strict=True))
        self.action_spaces = dict(zip(self.possible_agents, action_spaces, strict=True))

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    @property
    def metadata(self):
        return self.env.metadata

    @property
    def render_mode(self):
        return self.env.render_mode

    def reset(self, seed=None, **options):
        observations, info = self.env.reset(seed=seed, **options)
        self.agents, self.last_actions = list(self.possible_agents), {}
        return self.each(observations, "the observation"), self.infos(info)

    def step(self, actions):
        self.last_actions.update(actions)
        joint = tuple(self.last_actions[agent] for agent in self.possible_agents)
        observations, rewards, terminated, truncated, info = self.env.step(joint)
        observations, rewards = self.each(observations, "the observation"), self.each(rewards, "the reward", True)
        flags = self.each(terminated, "`terminated`", True), self.each(truncated, "`truncated`", True)
        self.agents = [agent for agent in self.agents if not any(ended[agent] for ended in flags)]
        return observations, rewards, *flags, self.infos(info)

    def each(self, value, name, may_be_one=False):
        """The parts of a value by agent. A dict has them by the agents' names or numbers."""
        if may_be_one and (not hasattr(value, "__len__") or getattr(value, "ndim", None) == 0):
            return dict.fromkeys(self.possible_agents, value)
        if isinstance(value, dict):
            keys = self.possible_agents if self.possible_agents[0] in value else range(len(self.possible_agents))
            if set(value) == set(keys):
                value = [value[key] for key in keys]
        if isinstance(value, dict) or not hasattr(value, "__len__") or len(value) != len(self.possible_agents):
            raise ValueError(f"{name} is {short(value)}, but it must have one part for each of {len(self.possible_agents)} agents")
        return dict(zip(self.possible_agents, value, strict=True))

    def infos(self, info):
        """The `info` of each agent: a list has one for each, and a dict is every agent's, in which a mask has a row for each."""
        if not isinstance(info, dict) or set(info) == set(self.possible_agents):
            return self.each(info, "`info`")
        masks = info.get("action_mask")
        if masks is None:
            return dict.fromkeys(self.possible_agents, info)
        masks = self.each(masks, "info['action_mask']")
        return {agent: {**info, "action_mask": mask} for agent, mask in masks.items()}

    def render(self):
        return self.env.render()

    def close(self):
        self.env.close()


def spaces_of_agents(env, name):
    """The parts of a space of all agents: a Tuple, or a list of spaces."""
    import gymnasium

    space = getattr(env, name, None)
    parts = list(space.spaces if isinstance(space, gymnasium.spaces.Tuple) else space if isinstance(space, (list, tuple)) else ())
    if not parts or not all(isinstance(part, gymnasium.spaces.Space) for part in parts):
        raise TypeError(
            f"self.{name} of {env} is {short(space)}, but an environment of several agents (`ma:`) has a Tuple with one space "
            "for each agent; one of a single agent is `py:`"
        )
    return parts


HOSTS["tuple_agents"] = Agents
