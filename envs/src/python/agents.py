# The host of an environment of several agents; its rows are the agents.


class Agents(Slabs):
    """One environment. Rows of agents with narrower spaces are padded."""

    def __init__(self, make, memory, slabs, info_keys, admission):
        super().__init__(memory, slabs, info_keys, admission)
        self.env = make(1)
        self.agents, self.observation_space, self.action_space = joint_spaces(self.env)
        self.num_actions = [int(space.n) if is_discrete(space) else 0 for space in self.action_space]
        self.ended = [False] * self.num_rows
        self.is_turn_based = hasattr(self.env, "acting")
        for _, column in self.infos:
            column[:] = float("nan")
        self.writers, self.readers = [], []
        for row, (seen, done) in enumerate(zip(self.observation_space, self.action_space, strict=True)):
            width = sum(leaf_width(leaf) for _, leaf in leaves(seen))
            of = f" of {self.agents[row]}"
            self.writers.append(observation_writer(seen, self.obs[row : row + 1, :width], admission, of))
            self.readers.append(action_reader(done))

    def env_of(self, row):
        return self.env

    def reset(self, seeds):
        observations, infos = self.seeded_reset(self.env, seeds and seeds[0])
        present = set(self.env.agents)
        self.rewards[:] = self.terminated[:] = self.truncated[:] = 0
        acting = set(self.env.acting) if self.is_turn_based else present
        for row, agent in enumerate(self.agents):
            self.ended[row] = False
            self.alive[row] = agent in present
            self.acting[row] = self.alive[row] and agent in acting
            self.write_agent(row, observations, infos, agent in present)

    def step(self, seeds):
        acting = [(row, agent) for row, agent in enumerate(self.agents) if self.acting[row]]
        actions = {agent: self.readers[row](self.actions[row]) for row, agent in acting}
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        present = set(self.env.agents)
        acting = set(self.env.acting) if self.is_turn_based else present
        for row, agent in enumerate(self.agents):
            was_alive = self.alive[row]
            terminated = bool(was_alive and terminations.get(agent, False))
            truncated = bool(was_alive and truncations.get(agent, False))
            self.ended[row] |= terminated or truncated
            alive = agent in present and not self.ended[row]
            if was_alive and not alive and not self.ended[row]:
                raise RuntimeError(f"{agent} left `agents`, but neither its termination nor its truncation was set")
            there = alive or terminated or truncated
            self.alive[row], self.terminated[row], self.truncated[row] = alive, terminated, truncated
            self.acting[row] = alive and agent in acting
            self.rewards[row] = self.admission.reward(rewards[agent]) if there and agent in rewards else 0.0
            self.write_agent(row, observations, infos, there)

    def write_agent(self, row, observations, infos, there):
        """What an agent sees and is told; zeros when it is not there."""
        agent, masks = self.agents[row], self.masks
        info = infos.get(agent, {}) if there else {}
        self.last_infos[row] = info
        self.write_infos(row, info)
        if masks is not None:
            masks[row] = 0
        if not there:
            self.obs[row] = 0
            return
        if agent not in observations:
            raise KeyError(f"there is no observation of {agent}, which is in the episode or just ended")
        observation = observations[agent]
        self.writers[row](0, observation)
        if masks is not None and self.num_actions[row]:
            mask = (observation if shows_mask(self.observation_space[row]) else info).get("action_mask")
            # An agent that has just ended and has no mask keeps zeros: what would be legal is not known.
            if self.acting[row] or not self.alive[row]:
                masks[row, : self.num_actions[row]] = bool(self.acting[row]) if mask is None else mask

    def render(self, row, mode):
        return self.env.render() if getattr(self.env, "render_mode", None) == mode else None

    def close(self):
        self.env.close()


def joint_spaces(env):
    """The agents, and the spaces of all of them as tuples."""
    from gymnasium.spaces import Tuple

    agents = list(getattr(env, "possible_agents", ()))
    if not agents:
        raise ValueError(f"{env} has no possible_agents; rows need a fixed list of all agents that can ever take part")
    return agents, Tuple([env.observation_space(a) for a in agents]), Tuple([env.action_space(a) for a in agents])


def is_discrete(space):
    import gymnasium

    return isinstance(space, gymnasium.spaces.Discrete)


def shows_mask(observation_space):
    import gymnasium

    return isinstance(observation_space, gymnasium.spaces.Dict) and "action_mask" in observation_space.spaces


HOSTS["parallel_env"] = Agents
