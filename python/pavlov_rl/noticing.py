"""Notices that somebody else steps the environments that a model trains in, for instance an evaluation."""

from collections.abc import Iterable
from typing import Any
from weakref import WeakSet


class Notice:
    """Whether one of the methods was called between `start` and `stop`. `methods` are objects and the names of theirs."""

    def __init__(self, methods: Iterable[tuple[Any, str]]) -> None:
        self.happened = False
        self._methods = [(of, name) for of, name in methods if hasattr(of, "__dict__")]

    def start(self) -> None:
        """Begins to notice calls."""
        for of, name in self._methods:
            own = vars(of).get(name)
            if not isinstance(own, Noticed):
                own = vars(of)[name] = Noticed(of, name, own)
            own.listeners.add(self)

    def stop(self) -> None:
        """Ends it. The objects are as they were before."""
        for of, name in self._methods:
            own = vars(of).get(name)
            if isinstance(own, Noticed):
                own.listeners.discard(self)
                if not own.listeners:
                    own.remove()


class Noticed:
    """A method of an object, whose calls are noticed. Copies of the object have the method without it."""

    def __init__(self, of: Any, name: str, own: Any) -> None:
        self.listeners: WeakSet[Notice] = WeakSet()
        self._of = of
        self._name = name
        # What the user put into the object, if it was not the method of the class.
        self._own = own

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        for listener in self.listeners:
            listener.happened = True
        method = self._own if self._own is not None else getattr(type(self._of), self._name).__get__(self._of)
        return method(*arguments, **keywords)

    def remove(self) -> None:
        """Puts back what was there before."""
        if self._own is None:
            del vars(self._of)[self._name]
        else:
            vars(self._of)[self._name] = self._own

    def __reduce__(self) -> Any:
        # Whoever copies or pickles the object has made it already when its attributes are made.
        return (getattr, (self._of, self._name)) if self._own is None else (_same, (self._own,))


def _same(value: Any) -> Any:
    return value
