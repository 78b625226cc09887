"""Names of policies as classes, for scripts that pass a class; each means its name as text."""


class MlpPolicy:
    """Fully connected networks."""


class MultiInputPolicy:
    """Fully connected networks on observations of several parts."""


class CnnPolicy:
    """Convolutions on images."""


class MlpLstmPolicy:
    """A long short-term memory after fully connected layers."""


ActorCriticPolicy = MlpPolicy
