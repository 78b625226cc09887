# Hosts: what steps the rows of one worker.


SHORT_SEED = 2**31 - 1


class Slabs:
    """This worker's rows of the shared memory, as numpy arrays and, where single numbers are written, memoryviews."""

    def __init__(self, memory, slabs, info_keys, admission):
        import numpy as np

        self.admission = admission
        first, self.num_rows = slabs["first"], slabs["rows"]
        self.set_reset_options(None)
        self.takes_short_seeds = False
        offsets = slabs["offsets"]

        def array(name, dtype, width=1):
            dtype = np.dtype(dtype)
            start = offsets[name] + first * width * dtype.itemsize
            rows = np.frombuffer(memory, dtype, self.num_rows * width, start)
            return rows.reshape(self.num_rows, width) if width != 1 or name in MATRICES else rows

        obs_dtype, act_dtype = DTYPES[slabs["obs_dtype"]], DTYPES[slabs["act_dtype"]]
        self.obs = array("obs", obs_dtype, slabs["obs_width"])
        self.final_obs = array("final_obs", obs_dtype, slabs["obs_width"])
        self.actions = array("actions", act_dtype, slabs["act_width"])
        self.rewards = array("rewards", "f8")
        self.terminated = array("terminated", "u1")
        self.truncated = array("truncated", "u1")
        self.alive, self.acting = array("alive", "u1"), array("acting", "u1")
        self.seeds = array("seeds", "u8")
        self.masks = self.final_masks = None
        if slabs["num_masked"]:
            self.masks = array("masks", "u1", slabs["num_masked"])
            self.final_masks = array("final_masks", "u1", slabs["num_masked"])
        column = len(info_keys) and slabs["num_envs"] * 8
        self.infos = [
            (key.split("/"), np.frombuffer(memory, "f8", self.num_rows, offsets["infos"] + i * column + first * 8))
            for i, key in enumerate(info_keys)
        ]
        # Each row's `info` of the state that its observation shows.
        self.last_infos = [{}] * self.num_rows
        # Which row is being worked on, and whether it is being reset: the parent's only news of a dead worker.
        at = offsets["at"] + slabs["worker"] * 16
        self.at = memoryview(memory)[at : at + 16].cast("q")
        callers = offsets["callers"] + slabs["worker"] * 24
        self.caller = memoryview(memory)[callers : callers + 24].cast("q")

    def set_reset_options(self, options):
        # An environment whose `reset` has no `options` works as long as there are none.
        self.reset_arguments = {"options": options} if options else {}

    def seeded_reset(self, env, seed):
        """Resets an environment. One that draws from `np.random.RandomState`, say, takes 31 bits of a seed that is too long."""
        if seed is not None and self.takes_short_seeds:
            seed &= SHORT_SEED
        try:
            return env.reset(seed=seed, **self.reset_arguments)
        except (ValueError, OverflowError) as error:
            too_long = ("between 0 and 2**32 - 1", "too large to convert", "int too big", "out of range")
            if seed is None or seed <= SHORT_SEED or not any(words in str(error) for words in too_long):
                raise
        # Shorter seeds are the same with and without this.
        self.takes_short_seeds = True
        return env.reset(seed=seed & SHORT_SEED, **self.reset_arguments)

    def info_value(self, row, path):
        value = self.last_infos[row]
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def write_infos(self, row, info):
        for path, column in self.infos:
            value = info
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            try:
                column[row] = float("nan") if value is None else value
            except (TypeError, ValueError) as error:
                key = "/".join(path)
                raise TypeError(
                    f"info[{key!r}] is {value!r}, which is no number: leave it out of `info_keys`"
                ) from error


def takes_mask(space):
    """Whether a choice among the actions of this space can be masked."""
    import gymnasium

    return isinstance(space, (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete))


def mask_method(env):
    """The method `action_masks` of the environment or a wrapper, as sb3-contrib calls it; None if there is none."""
    try:
        method = env.get_wrapper_attr("action_masks")
    except AttributeError:
        return None
    return method if callable(method) else None


def mask_now(method, info):
    """The flags of the legal actions, of several choices one after the other; None if the environment does not say."""
    mask = info.get("action_mask")
    if mask is None:
        return method() if method else None
    if isinstance(mask, tuple):
        import numpy as np

        return np.concatenate(mask)
    return mask


def rewards_of(host, goals, rows):
    """The rewards of achieved and desired goals by the environment's `compute_reward`; None if it has none. It gets the goals
    of all rows at once, and an empty `info` for each: infos are not stored with transitions."""
    import gymnasium
    import numpy as np

    space = host.observation_space
    envs = getattr(host, "envs", None)
    if not envs or not isinstance(space, gymnasium.spaces.Dict) or not {"achieved_goal", "desired_goal"} <= set(space.spaces):
        return None
    layer = envs[0]
    while isinstance(layer, gymnasium.Wrapper) and not hasattr(type(layer), "compute_reward"):
        # What it changes, `compute_reward` inside of it does not know.
        if isinstance(layer, (gymnasium.ObservationWrapper, gymnasium.RewardWrapper)):
            return None
        layer = layer.env
    compute_reward = getattr(layer, "compute_reward", None)
    if compute_reward is None:
        return None
    if rows == 0:
        return np.zeros(0)
    parts = [space[name] for name in ("achieved_goal", "desired_goal")]
    achieved, desired = (flat.astype(part.dtype).reshape((rows,) + part.shape) for flat, part in zip(goals, parts))
    rewards = np.asarray(compute_reward(achieved, desired, [{} for _ in range(rows)]), "f8")
    if rewards.size != rows:
        raise ValueError(
            f"compute_reward() gave {rewards.size} rewards for {rows} rows of goals: it must take goals of shape "
            f"{achieved.shape} and give one reward for each row"
        )
    return rewards.ravel()


MATRICES = ("obs", "final_obs", "actions", "masks", "final_masks")


class Loop(Slabs):
    """Copies stepped one after the other; each keeps what it needs for the caller's seeds and replay."""

    def __init__(self, make, memory, slabs, info_keys, admission):
        super().__init__(memory, slabs, info_keys, admission)
        self.envs = []
        # Steps of the running episodes, and of those at which the caller wants them truncated.
        self.steps, self.limit = [0] * self.num_rows, math.inf
        for row in range(self.num_rows):
            self.at[0] = row
            self.envs.append(make(1))
        self.at[0] = NO_ROW
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space
        for row, env in enumerate(self.envs):
            if env.observation_space != self.observation_space or env.action_space != self.action_space:
                raise ValueError(
                    f"row {row} of this worker has the spaces {env.observation_space} and {env.action_space}, "
                    f"but row 0 has {self.observation_space} and {self.action_space}"
                )
        self.write = observation_writer(self.observation_space, self.obs, admission)
        self.write_final = observation_writer(self.observation_space, self.final_obs, admission)
        self.read_actions = actions_reader(self.action_space, self.actions)
        self.read_action = action_reader(self.action_space)
        self.unseeded = [None] * self.num_rows
        self.mask_methods = [mask_method(env) for env in self.envs]
        self.flags = (memoryview(self.terminated), memoryview(self.truncated))
        self.reward_view = memoryview(self.rewards)

    def env_of(self, row):
        return self.envs[row]

    def reset(self, seeds):
        for row, seed in enumerate(seeds or self.unseeded):
            self.at[0] = row
            observation, info = self.reset_row(row, seed)
            self.write(row, observation)
            self.write_infos(row, info)
        self.at[0] = NO_ROW

    def reset_row(self, row, seed):
        self.at[1] = 1
        self.steps[row] = 0
        observation, info = self.seeded_reset(self.envs[row], seed)
        self.last_infos[row] = info
        if self.masks is not None:
            self.write_mask(self.masks, row, info)
        self.at[1] = 0
        return observation, info

    def step(self, seeds):
        actions = self.read_actions()
        at, write, rewards = self.at, self.write, self.reward_view
        terminated, truncated = self.flags
        has_infos, has_masks = bool(self.infos), self.masks is not None
        steps, limit, last_infos = self.steps, self.limit, self.last_infos
        admission, numbers, bools = self.admission, self.admission.numbers, self.admission.flags
        for row, env in enumerate(self.envs):
            at[0] = row
            observation, reward, ended, cut, info = env.step(actions[row])
            steps[row] += 1
            if reward.__class__ not in numbers:
                reward = admission.reward(reward)
            if ended.__class__ not in bools or cut.__class__ not in bools:
                ended, cut = admission.flag(ended, "terminated"), admission.flag(cut, "truncated")
            cut = cut or steps[row] >= limit
            rewards[row] = reward
            last_infos[row] = info
            if has_infos:
                self.write_infos(row, info)
            terminated[row], truncated[row] = bool(ended), bool(cut)
            if ended or cut:
                self.write_final(row, observation)
                if has_masks:
                    self.write_mask(self.final_masks, row, info)
                observation, _ = self.reset_row(row, seeds and seeds[row])
            elif has_masks:
                self.write_mask(self.masks, row, info)
            write(row, observation)
        at[0] = NO_ROW

    def write_mask(self, masks, row, info):
        mask = mask_now(self.mask_methods[row], info)
        if mask is not None and len(mask) != masks.shape[1]:
            source = "info['action_mask']" if "action_mask" in info else "action_masks()"
            raise ValueError(f"{source} has {len(mask)} flags, but there are {masks.shape[1]} actions")
        masks[row] = 1 if mask is None else mask

    def set_task(self, task):
        for row, env in enumerate(self.envs):
            self.at[0] = row
            if not hasattr(env.unwrapped, "set_task"):
                raise NotImplementedError(f"{env} has no `set_task(task)`, so it has one task only")
            env.unwrapped.set_task(task)
        self.at[0] = NO_ROW

    def replay(self, row, seed, steps, options, data, at):
        import numpy as np

        self.at[0] = row
        arguments = self.reset_arguments
        self.set_reset_options(options)
        observation, info = self.reset_row(row, seed)
        self.reset_arguments = arguments
        actions = np.frombuffer(data, self.actions.dtype, steps * self.actions.shape[1], at)
        env = self.envs[row]
        for step, action in enumerate(actions.reshape(steps, -1) if steps else ()):
            observation, _, ended, cut, info = env.step(self.read_action(action))
            if ended or cut:
                raise RuntimeError(f"the replayed episode ended at step {step + 1} of {steps}")
        self.write(row, observation)
        self.steps[row] = steps
        self.last_infos[row] = info
        self.write_infos(row, info)
        if self.masks is not None:
            self.write_mask(self.masks, row, info)
        self.at[0] = NO_ROW

    def render(self, row, mode):
        env = self.envs[row]
        return env.render() if env.render_mode == mode else None

    def close(self):
        raised = None
        for env in self.envs:
            try:
                env.close()
            except Exception as error:
                raised = raised or error
        if raised is not None:
            raise raised


class Hosted(Slabs):
    """A whole vector environment: its rows are this worker's."""

    def __init__(self, make, memory, slabs, info_keys, admission):
        super().__init__(memory, slabs, info_keys, admission)
        self.env = self.make(make)
        self.observation_space = self.env.single_observation_space
        self.action_space = self.env.single_action_space
        each = (self.num_rows,)
        self.views = observation_views(self.observation_space, self.obs, admission, each)
        self.final_views = observation_views(self.observation_space, self.final_obs, admission, each)
        self.write_final = observation_writer(self.observation_space, self.final_obs, admission)
        self.read_actions = batch_reader(self.action_space, self.actions)

    def make(self, make):
        env = make(self.num_rows)
        mode = env.metadata.get("autoreset_mode")
        mode = getattr(mode, "value", mode)
        self.same_step = mode == "SameStep"
        # ale-py wants the seeds of the rows that are reset, Gymnasium's vectors want one for every row.
        self.seeds_of_reset_rows = type(env.unwrapped).__module__.startswith("ale_py")
        return env

    def env_of(self, row):
        return self.env

    def reset(self, seeds):
        observations, info = self.reset_rows(seeds, None)
        self.last_infos = [info] * self.num_rows
        self.write_rows(self.views, observations, slice(None))
        self.write_infos(info)
        self.write_masks(self.masks, info)

    def reset_rows(self, seeds, rows):
        """Resets all rows, or those where `rows` is true."""
        import numpy as np

        if self.seeds_of_reset_rows and seeds is not None:
            # Its seeds are 32-bit signed integers; -1 is none.
            seeds = (np.asarray(seeds, "u8") & 0x7FFF_FFFF).astype("i8")
            seeds = seeds if rows is None else seeds[rows]
        import gymnasium

        try:
            return self.env.reset(seed=seeds, options=None if rows is None else {"reset_mask": rows})
        except (gymnasium.error.Error, TypeError) as error:
            if seeds is None:
                raise
            raise RuntimeError(
                f"{self.env} does not take a list of seeds, one for every copy, so an ended copy could not begin its "
                'next episode with its own; use vectorization "loop"'
            ) from error

    def step(self, seeds):
        import numpy as np

        observations, rewards, ended, cut, info = self.env.step(self.read_actions())
        self.rewards[:] = self.admission.array(rewards, "the reward")
        self.terminated[:] = ended
        self.truncated[:] = cut
        self.write_infos(info)
        self.last_infos = [info] * self.num_rows
        done = np.logical_or(ended, cut)
        if done.any():
            if self.same_step:
                self.write_finals(info["final_obs"], done)
                self.write_masks(self.final_masks, info.get("final_info", {}), done)
            else:
                self.write_masks(self.masks, info)
                self.write_masks(self.final_masks, info, done)
                self.write_rows(self.final_views, observations, done)
                self.write_rows(self.views, observations, slice(None))
                before = self.obs[~done]
                observations, info = self.reset_rows(seeds, done)
                for row in done.nonzero()[0].tolist():
                    self.last_infos[row] = info
                self.write_rows(self.views, observations, slice(None))
                if not np.array_equal(before, self.obs[~done], equal_nan=before.dtype.kind == "f"):
                    raise RuntimeError(
                        f"{self.env} does not heed options['reset_mask']: rows whose episodes had not ended changed. "
                        'Give it autoreset_mode SAME_STEP, or use vectorization "loop"'
                    )
                self.write_masks(self.masks, info, done)
                return
        self.write_rows(self.views, observations, slice(None))
        self.write_masks(self.masks, info)

    def write_rows(self, views, observations, rows):
        for path, rule, view in views:
            view[rows] = rule(part_of(observations, path, self.admission))[rows]

    def write_finals(self, finals, done):
        if getattr(finals, "dtype", None) == object:
            for row in done.nonzero()[0].tolist():
                self.write_final(row, finals[row])
        else:
            self.write_rows(self.final_views, finals, done)

    def info_value(self, row, path):
        value, given = self.last_infos[row], True
        for key in path:
            given = value.get("_" + key, True) if isinstance(value, dict) else False
            value = value.get(key) if isinstance(value, dict) else None
        given = given if isinstance(given, bool) else given[row]
        return value[row] if given and value is not None else None

    def write_infos(self, info):
        import numpy as np

        for path, column in self.infos:
            column[:] = np.nan
            for source in (info, info.get("final_info", {})):
                value, given = source, True
                for key in path:
                    given = value.get("_" + key, True) if isinstance(value, dict) else False
                    value = value.get(key) if isinstance(value, dict) else None
                if value is not None:
                    np.copyto(column, np.asarray(value, "f8"), where=given)

    def write_masks(self, masks, info, rows=slice(None)):
        """Writes the masks in `info` to some rows; all actions where it has none."""
        if masks is not None:
            mask = info.get("action_mask")
            if mask is None:
                masks[rows] = 1
            else:
                import numpy as np

                # A row without a mask is None, or zeros beside a flag that says so.
                given = info.get("_action_mask", [True] * len(mask))
                whole = [1] * masks.shape[1]
                flags = [row if there and row is not None else whole for row, there in zip(mask, given, strict=True)]
                masks[rows] = np.array(flags)[rows]

    def set_task(self, task):
        raise NotImplementedError("a hosted vector environment takes no tasks; use vectorization \"loop\"")

    def replay(self, row, seed, steps, options, data, at):
        raise NotImplementedError("a hosted vector environment cannot be replayed")

    def render(self, row, mode):
        return self.env.render()[row] if self.env.render_mode == mode else None

    def close(self):
        self.env.close()


class EnvPool(Hosted):
    """EnvPool takes its seed when it is made and resets single rows by their numbers."""

    def make(self, make):
        self.same_step, self.remake = False, make
        return make(self.num_rows)

    def reset_rows(self, seeds, rows):
        if rows is None:
            if seeds is not None:
                self.env.close()
                self.env = self.remake(self.num_rows, seed=seeds[0] & 0x7FFF_FFFF)
            return self.env.reset()
        import numpy as np

        numbers = rows.nonzero()[0].astype("i4")
        fresh, info = self.env.reset(numbers)
        # Only these rows came back: the others are what the step gave.
        for path, _, view in self.views:
            value = fresh
            for key in path:
                value = value[key]
            view[np.asarray(info["env_id"])] = value
        return self.batch(), info

    def batch(self):
        """All rows as they stand in the slab."""
        batch = {}
        for path, _, view in self.views:
            if not path:
                return view.copy()
            inner = batch
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            inner[path[-1]] = view.copy()
        return batch

    def render(self, row, mode):
        return None


HOSTS = {"loop": Loop, "vector_entry_point": Hosted, "envpool": EnvPool}
