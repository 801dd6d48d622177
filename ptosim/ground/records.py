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
    """Compile what the standard decorator writes: a parameter for each field in their order, those
    that are only given by name last; a fresh object of a factory for each that is not given."""
    names: dict[str, Any] = {"_put": object.__setattr__, "_NOT_GIVEN": object()}
    by_place, by_name, steps = ["self"], ["*"], []
    for f in dataclasses.fields(cls):
        value = f.name if f.init else f"_default_{f.name}"
        if f.init:
            parameter = f.name + _default(f, names)
            (by_name if f.kw_only else by_place).append(parameter)
        if f.default_factory is not dataclasses.MISSING:
            made = f"_factory_{f.name}()"
            names[f"_factory_{f.name}"] = f.default_factory
            value = f"{made} if {f.name} is _NOT_GIVEN else {f.name}" if f.init else made
        elif not f.init:
            if not slots or f.default is dataclasses.MISSING:
                continue  # the class has the default, or somebody sets the field later
            names[value] = f.default
        steps.append(f"_put(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        steps.append("self.__post_init__()")
    parameters = ", ".join(by_place + (by_name if len(by_name) > 1 else []))
    exec(f"def __init__({parameters}):\n " + "\n ".join(steps or ["pass"]), names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return names["__init__"]


def _default(f: Any, names: dict[str, Any]) -> str:
    """The default of a parameter as text; `names` gets the object that it names."""
    if f.default_factory is not dataclasses.MISSING:
        return "=_NOT_GIVEN"
    if f.default is dataclasses.MISSING:
        return ""
    names[f"_default_{f.name}"] = f.default
    return f"=_default_{f.name}"


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
