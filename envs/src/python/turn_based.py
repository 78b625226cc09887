# PettingZoo's turn-based games (AEC), in which one agent acts at a time.


class TurnBased:
    """Such a game with the interface of PettingZoo's parallel environments. `acting` names the agent whose turn it is.

    A reward belongs to the step in which it was earned, also for agents that wait. Agents that are dead are removed at once.
    """

    def __init__(self, env):
        self.env = env
        self.possible_agents = list(getattr(env, "possible_agents", ()))
        self.observation_space, self.action_space = env.observation_space, env.action_space

    @property
    def agents(self):
        return self.env.agents

    @property
    def acting(self):
        return [self.env.agent_selection] if self.env.agents else []

    @property
    def metadata(self):
        return self.env.metadata

    @property
    def render_mode(self):
        return getattr(self.env, "render_mode", None)

    def reset(self, seed=None, **options):
        self.env.reset(seed=seed, **options)
        return self.observations(), dict(self.env.infos)

    def step(self, actions):
        env = self.env
        env.step(actions[env.agent_selection])
        # What is known of agents that have just ended goes with their removal. Until then they earn rewards.
        rewards, infos = dict(env.rewards), dict(env.infos)
        flags = dict(env.terminations), dict(env.truncations)
        seen = {agent: env.observe(agent) for agent in env.agents if self.is_dead(agent)}
        while env.agents and self.is_dead(env.agent_selection):
            env.step(None)
        flags = tuple({agent: flag and agent not in env.agents for agent, flag in of.items()} for of in flags)
        return {**seen, **self.observations()}, rewards, *flags, {**infos, **env.infos}

    def is_dead(self, agent):
        return self.env.terminations[agent] or self.env.truncations[agent]

    def observations(self):
        return {agent: self.env.observe(agent) for agent in self.env.agents}

    def render(self):
        return self.env.render()

    def close(self):
        self.env.close()
