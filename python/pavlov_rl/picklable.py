"""How environments whose memory the Rust half holds are pickled and copied."""

from typing import Any, ClassVar, Generic, TypeVar

from . import _native

Native = TypeVar("Native", _native.NativeVector, _native.NativeAgents)


class Picklable(Generic[Native]):
    """A base of environments that can be pickled and copied, in the middle of an episode too.

    A copy makes a native environment of its own and goes on from the saved state of the original. All other attributes are
    copied as they are.
    """

    # What `_make_native` sets, `_native` apart.
    _of_native: ClassVar[tuple[str, ...]] = ()
    _native: Native

    def _make_native(self) -> None:
        """Makes the native environment and what looks at its memory."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_native" and name not in self._of_native}
        return {"attributes": state, "native": self._native.save_state() if self._native.is_running else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["attributes"])
        self._make_native()
        if state["native"] is not None:
            self._native.load_state(state["native"])
