# How an environment is found by its id, and made.


def made_as(first_message, num_envs, seed, said):
    """The environment of an id, as the host of this vectorization steps it."""
    kwargs, vectorization = first_message["kwargs"], first_message["vectorization"]
    if vectorization == "envpool":
        import envpool

        _, _, name = first_message["id"].rpartition(":")
        return envpool.make(name, env_type="gymnasium", num_envs=num_envs, seed=seed, **kwargs)
    if vectorization == "parallel_env":
        return agents_of(import_module(first_message["id"]), kwargs)
    import gymnasium

    spec = entry_of(first_message["id"])
    choose_mujoco_gl(kwargs, spec.entry_point, said)
    try:
        if vectorization == "vector_entry_point":
            return gymnasium.make_vec(spec, num_envs=num_envs, vectorization_mode=vectorization, **kwargs)
        env = gymnasium.make(spec, disable_env_checker=True, **kwargs)
    except TypeError as error:
        error.way_out = arguments_hint(str(error), spec.entry_point)
        raise
    env = wrapped(env, first_message["wrappers"])
    return TupleAgents(env) if vectorization == "tuple_agents" else env


def agents_of(module, kwargs):
    """PettingZoo's environment of a module: the parallel one, or else the turn-based one."""
    if hasattr(module, "parallel_env"):
        return module.parallel_env(**kwargs)
    if hasattr(module, "env"):
        return TurnBased(module.env(**kwargs))
    error = AttributeError(f"module {module.__name__!r} has no function parallel_env() or env()")
    error.way_out = "after `pz:` stands a module of PettingZoo's form, such as pettingzoo.classic.connect_four_v3"
    raise error


def arguments_hint(text, made):
    """How the arguments of a constructor are given, where it misses some or does not know one."""
    if "__init__()" not in text and f"{getattr(made, '__name__', None)}()" not in text and "takes no arguments" not in text:
        return None
    missing = re.search(r"missing \d+ required [\w -]*arguments?: ('\w+'(?:,? (?:and )?'\w+')*)", text)
    if missing:
        given = ", ".join(f"{name} = .." for name in re.findall(r"'(\w+)'", missing[1]))
        return f"give them in the env_config: kwargs = {{ {given} }}"
    if "unexpected keyword argument" in text or "takes no arguments" in text:
        return "`kwargs` in the env_config are the keyword arguments of its constructor"
    return None


def wrapped(env, wrappers):
    """The environment in wrappers of Python, the first innermost: `FilterObservation(["a"])` is Gymnasium's or MiniGrid's, and
    `module:Wrapper(..)` any other."""
    import ast

    import gymnasium

    for text in wrappers:
        place, bracket, arguments = text.partition("(")
        module, _, name = place.strip().rpartition(":")
        try:
            made = wrapper_of(module, name)
            call = ast.parse(f"_({arguments}" if bracket else "_()", mode="eval").body
            given = {part.arg: ast.literal_eval(part.value) for part in call.keywords}
            env = made(env, *map(ast.literal_eval, call.args), **given)
        except Exception as error:
            raise ValueError(f"the wrapper {text!r} of `wrappers` in the env_config: {error}") from error
    return env


def wrapper_of(module, name):
    """The class of a wrapper. Others than wrappers are not called."""
    import gymnasium

    instead = {"NormalizeObservation": "`observation_filter` = \"MeanStdFilter\"", "NormalizeReward": "`clip_rewards`"}.get(name)
    if instead:
        raise ValueError(f"its statistics would not be in checkpoints; use the setting {instead}")
    if not module:
        is_known = hasattr(gymnasium.wrappers, name)
        if not is_known and not hasattr(import_module_if_there("minigrid.wrappers"), name):
            raise ValueError("neither Gymnasium nor MiniGrid has it; write `module:Wrapper(..)` for one of another module")
        module = "gymnasium.wrappers" if is_known else "minigrid.wrappers"
    made = getattr(import_module(module), name)
    if not (isinstance(made, type) and issubclass(made, gymnasium.Wrapper)):
        raise ValueError(f"{made!r} is no subclass of gymnasium.Wrapper")
    return made


def import_module_if_there(name):
    """The module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def entry_of(name):
    """The entry in Gymnasium's registry of the id `name` or `module:name`; a class that has none gets one of its own."""
    import gymnasium

    module_name, _, name = name.rpartition(":")
    module = import_module(module_name) if module_name else None
    made, register = getattr(module, name, None), getattr(module, "register_envs", None)
    if name not in gymnasium.registry and callable(made):
        return own_entry(name, made)
    if name not in gymnasium.registry and needs_no_arguments(register):
        register()
    if name not in gymnasium.registry and name in old_registry():
        return old_entry(name)
    return gymnasium.spec(name)


def own_entry(name, made):
    """An entry for a class, or for a function that makes an environment."""
    from gymnasium.envs.registration import EnvSpec

    # A function of these runs programs or opens files, whoever wrote the settings.
    if is_pythons_own(made):
        raise ValueError(f"{made!r} makes no environment: it is part of Python itself")
    if isinstance(made, type):
        return EnvSpec(id=name, entry_point=(lambda **kwargs: of_old_gym(made(**kwargs))) if is_old(made) else made)

    def make(**kwargs):
        env = made(**kwargs)
        return of_old_gym(env) if is_old(type(env)) else env

    # Errors about arguments name the function.
    make.__name__ = getattr(made, "__name__", "make")
    return EnvSpec(id=name, entry_point=make)


def is_pythons_own(made):
    """Whether a class or a function comes with Python."""
    made = getattr(made, "func", made)
    top = (getattr(made, "__module__", None) or "builtins").partition(".")[0]
    if hasattr(sys, "stdlib_module_names"):
        return top in sys.stdlib_module_names
    import sysconfig

    file = getattr(sys.modules.get(top), "__file__", None) or ""
    return not file or (file.startswith(sysconfig.get_paths()["stdlib"]) and "site-packages" not in file)


def needs_no_arguments(register):
    """Whether it is a function of the module that registers its environments; Gymnasium's own of this name takes a module."""
    import inspect

    if not callable(register):
        return False
    parameters = inspect.signature(register).parameters.values()
    return not any(part.default is part.empty and part.kind not in (part.VAR_POSITIONAL, part.VAR_KEYWORD) for part in parameters)


def is_old(made):
    """Whether a class is one of `gym` that is none of Gymnasium."""
    import gymnasium

    old = getattr(sys.modules.get("gym"), "Env", None)
    return isinstance(old, type) and issubclass(made, old) and not issubclass(made, gymnasium.Env)


def old_registry():
    """The entries of `gym`, which came before Gymnasium, if a module imported it."""
    registry = getattr(getattr(sys.modules.get("gym"), "envs", None), "registry", {})
    return getattr(registry, "env_specs", registry)


def old_entry(name):
    """An entry for an environment in the registry of `gym`."""
    from gymnasium.envs.registration import EnvSpec

    def make(**kwargs):
        import gym

        checker = {"disable_env_checker": True} if is_gym_26() else {}
        return of_old_gym(gym.make(name, **checker, **kwargs))

    entry = old_registry()[name]
    return EnvSpec(
        id=name,
        entry_point=make,
        max_episode_steps=entry.max_episode_steps,
        reward_threshold=entry.reward_threshold,
    )


def of_old_gym(env):
    """An environment of `gym` with Gymnasium's interface."""
    try:
        import shimmy
    except ImportError as error:
        error.way_out = (
            "the environment is one of the old package gym, which runs through shimmy: "
            f"{sys.executable} -m pip install shimmy"
        )
        raise
    return shimmy.GymV26CompatibilityV0(env=env) if is_gym_26() else shimmy.GymV21CompatibilityV0(env=OldFlags(env))


class OldFlags:
    """An environment of `gym` that has one flag `done`: of a list shimmy would make one that is always true."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, action):
        told = self.env.step(action)
        done = told[2]
        if getattr(done, "shape", hasattr(done, "__len__")):
            raise ValueError(
                f"`done` is {short(done)}, but an environment of the old gym ends for all agents at once: give one flag, or port it to "
                "Gymnasium, where `terminated` and `truncated` may be lists"
            )
        return told


def is_gym_26():
    """Whether `gym` has the interface of its last version, in which `step` gives two flags."""
    import gym

    return tuple(int(part) for part in gym.__version__.split(".")[:2]) >= (0, 26)


def import_module(name):
    """Imports an installed module, or else one of the current directory, which is then the last place on the path."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
    sys.path.append(os.getcwd())
    return importlib.import_module(name)


def choose_mujoco_gl(kwargs, entry_point, said):
    """Has MuJoCo draw without a display: it asks for a window unless MUJOCO_GL says otherwise."""
    decided = any(os.environ.get(name) for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"))
    if decided or kwargs.get("render_mode") != "rgb_array" or "mujoco" not in str(entry_point).lower():
        return
    from ctypes.util import find_library

    choice = next((gl for gl, library in (("egl", "EGL"), ("osmesa", "OSMesa")) if find_library(library)), None)
    text = f"pavlov: there is no display, so MuJoCo draws with MUJOCO_GL={choice}"
    if choice is None:
        text = "pavlov: there is no display, and neither libEGL nor libOSMesa is installed: MuJoCo cannot draw"
    else:
        os.environ["MUJOCO_GL"] = choice
    if first_to_say(said, text):
        print(text, file=sys.stderr)
