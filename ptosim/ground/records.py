"""`dataclass` as in the standard library, with its methods made when they are first needed.

A command loads some two hundred dataclasses and makes objects of a third of them. The standard
decorator writes and compiles the text of up to six methods for each one at import, which took a
quarter of the time of a small `check`. Here only `__init__` is compiled, and only when the first
object of the class is made; the other methods are ordinary functions over the fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, dataclass_transform


@dataclass_transform(field_specifiers=(dataclasses.field, dataclasses.Field))
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True
) -> Callable[[type], Any]:
    """Make a dataclass whose `__init__` is compiled when its first object is made.

    The arguments mean what they mean in `dataclasses.dataclass`; those that are not here have
    their defaults. `fields`, `replace`, `asdict` and `match` work as they do there.
    """

    def wrap(cls: type) -> Any:
        own = set(vars(cls))
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        methods: dict[str, Any] = {"__init__": _compiled_at_first_use(made, frozen, slots)}
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods |= _comparison(made, frozen)
        if frozen:
            methods |= _protection(made, slots)
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return made

    return wrap


def _compiled_at_first_use(cls: Any, frozen: bool, slots: bool) -> Callable[..., None]:
    def init(self: object, *args: object, **kwargs: object) -> None:
        made = _init(cls, frozen, slots)
        cls.__init__ = made
        made(self, *args, **kwargs)

    return init


def _init(cls: type, frozen: bool, slots: bool) -> Any:
    """Return the `__init__` that the standard decorator writes for a class of the same fields."""
    fields = dataclasses.fields(cls)
    body: dict[str, Any] = {f.name: _again(f) for f in fields}
    body["__annotations__"] = {f.name: "object" for f in fields}
    body["__doc__"] = cls.__doc__
    if hasattr(cls, "__post_init__"):
        body["__post_init__"] = None  # that there is one is all that is asked of it
    twin = type(cls.__name__, (), body)
    complete = dataclasses.dataclass(
        repr=False, eq=False, match_args=False, frozen=frozen, slots=slots
    )
    made: Any = complete(twin)
    made.__init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return made.__init__


def _again(f: Any) -> Any:
    given: dict[str, Any] = {"init": f.init, "kw_only": f.kw_only}
    if f.default is not dataclasses.MISSING:
        given["default"] = f.default
    if f.default_factory is not dataclasses.MISSING:
        given["default_factory"] = f.default_factory
    return dataclasses.field(**given)


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _comparison(cls: Any, frozen: bool) -> dict[str, Any]:
    names = [f.name for f in dataclasses.fields(cls) if f.compare]
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda self: ()

    def equal(self: object, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: object) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed if frozen else None}


def _protection(cls: Any, slots: bool) -> dict[str, Any]:
    def set_refused(self: object, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def delete_refused(self: object, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    methods: dict[str, Any] = {"__setattr__": set_refused, "__delattr__": delete_refused}
    if slots:  # the default of pickle sets attributes, which is not allowed here
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    return methods


def _state(self: Any) -> list[object]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
