"""`dataclass`, `field`, `replace` and `NamedTuple` as in the standard library, in a fraction of the
time.

A command loads some two hundred and fifty dataclasses and a hundred named tuples, and makes objects
of a third of them. The standard decorator inspects every field and compiles the text of up to six
methods for each class at import; `typing` compiles each annotation of a tuple. Here only `__init__`
is compiled, when the first object of the class is made; the other methods are ordinary functions
over the fields, annotations stay texts, and what `dataclasses` keeps about a class is made by its
own decorator when somebody asks for it; till then that module, which brings `inspect`, stays away.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, dataclass_transform

_FIELDS = "__record_fields__"
"""The attribute of a class in which its fields are, by their names."""
_MISSING: Any = object()


class _Field:
    """A field: its name, type as text, and what is said of it; the default is `_MISSING`, a value,
    or what a factory makes."""

    __slots__ = ("by_name", "compare", "default", "factory", "init", "name", "repr", "type")

    def __init__(
        self,
        *,
        default: Any = _MISSING,
        default_factory: Any = _MISSING,
        init: bool = True,
        repr: bool = True,
        compare: bool = True,
        kw_only: bool = False,
    ) -> None:
        self.name = self.type = ""
        self.default, self.factory = default, default_factory
        self.init, self.repr, self.compare, self.by_name = init, repr, compare, kw_only

    def standard(self) -> Any:
        """Return the field as the standard library makes it."""
        from dataclasses import field

        given = {"default": self.default, "default_factory": self.factory}
        return field(
            init=self.init, repr=self.repr, compare=self.compare, kw_only=self.by_name,
            **{k: v for k, v in given.items() if v is not _MISSING},
        )  # fmt: skip


if TYPE_CHECKING:
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import NamedTuple as NamedTuple
else:
    field = _Field

    def replace(record, /, **changes):
        """Return another record with some fields changed, as `dataclasses.replace` does."""
        for f in _fields(type(record)):
            if f.init:
                changes.setdefault(f.name, getattr(record, f.name))
            elif f.name in changes:
                raise ValueError(f"field {f.name} is declared with init=False")
        return type(record)(**changes)


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True
) -> Callable[[type], Any]:
    """Make a dataclass whose `__init__` is compiled when its first object is made.

    The arguments mean what they mean in `dataclasses.dataclass`; those that are not here have
    their defaults. `fields`, `replace`, `asdict` and `match` work as they do there. Annotations are
    texts (`from __future__ import annotations`); of pseudo-fields `ClassVar` and `KW_ONLY` are
    known.
    """

    def wrap(cls: type) -> Any:
        own = set(vars(cls))
        made = _with_fields(cls, slots)
        fields = list(_fields(made))
        methods: dict[str, Any] = {"__init__": _compiled_at_first_use(made, frozen, slots)}
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods |= _comparison([f.name for f in fields if f.compare], frozen)
        if frozen:
            methods |= _protection(slots)
        methods["__match_args__"] = tuple(f.name for f in fields if f.init and not f.by_name)
        methods["__replace__"] = replace
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            setattr(made, name, _Standard(name))
        return made

    return wrap


# -- fields ----------------------------------------------------------------------------------------


def _with_fields(cls: type, slots: bool) -> Any:
    """Note the fields of a class after those of its bases, and leave of a default only its value,
    or with `slots` (which is another class) nothing."""
    known: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        known |= vars(base).get(_FIELDS, {})
    own = _own_fields(cls)
    if slots:
        cls = _slotted(cls, own)
    else:
        for f in own.values():
            if f.default is not _MISSING:
                setattr(cls, f.name, f.default)
            elif f.name in vars(cls):
                delattr(cls, f.name)
    setattr(cls, _FIELDS, known | own)
    return cls


def _own_fields(cls: type) -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    by_name = False
    for name, text in cls.__annotations__.items():
        if text == "KW_ONLY":
            by_name = True
        elif not text.startswith("ClassVar"):
            f = found[name] = _field(getattr(cls, name, _MISSING))
            f.name, f.type, f.by_name = name, text, f.by_name or by_name
    return found


def _field(given: Any) -> _Field:
    """What a class body gives a field: what `field` returns, or a default; of a base there may be
    the slot."""
    if isinstance(given, _Field):
        return given
    if type(given).__module__ == "dataclasses":
        raise TypeError("`field` of a record is that of `ptosim.ground.records`")
    return _Field(default=_MISSING if isinstance(given, MemberDescriptorType) else given)


def _slotted(cls: type, fields: dict[str, _Field]) -> type:
    inherited = {name for base in cls.__mro__[1:-1] for name in vars(base).get("__slots__", ())}
    left_out = {"__dict__", "__weakref__", *fields}
    attributes = {name: value for name, value in vars(cls).items() if name not in left_out}
    attributes["__slots__"] = tuple(name for name in fields if name not in inherited)
    attributes["__qualname__"] = cls.__qualname__
    return type(cls)(cls.__name__, cls.__bases__, attributes)


def _fields(cls: type) -> Iterable[_Field]:
    """The fields of a class with those of its bases, in the order of the standard library."""
    return getattr(cls, _FIELDS).values()


class _Standard:
    """An attribute that the standard library looks at, made by its decorator when it asks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, record: object, cls: type) -> Any:
        from dataclasses import make_dataclass

        fields = [(f.name, f.type, f.standard()) for f in _fields(cls)]
        made: Any = make_dataclass(cls.__name__, fields, init=False, repr=False, eq=False)
        value = getattr(made, self.name)
        setattr(cls, self.name, value)
        return value


# -- methods ---------------------------------------------------------------------------------------
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
    for f in _fields(cls):
        value = f.name if f.init else f"_default_{f.name}"
        if f.init:
            parameter = f.name + _default(f, names)
            (by_name if f.by_name else by_place).append(parameter)
        if f.factory is not _MISSING:
            made = f"_factory_{f.name}()"
            names[f"_factory_{f.name}"] = f.factory
            value = f"{made} if {f.name} is _NOT_GIVEN else {f.name}" if f.init else made
        elif not f.init:
            if not slots or f.default is _MISSING:
                continue  # the class has the default, or somebody sets the field later
            names[value] = f.default
        steps.append(f"_put(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        steps.append("self.__post_init__()")
    parameters = ", ".join(by_place + (by_name if len(by_name) > 1 else []))
    exec(f"def __init__({parameters}):\n " + "\n ".join(steps or ["pass"]), names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return names["__init__"]


def _default(f: _Field, names: dict[str, Any]) -> str:
    """The default of a parameter as text; `names` gets the object that it names."""
    if f.factory is not _MISSING:
        return "=_NOT_GIVEN"
    if f.default is _MISSING:
        return ""
    names[f"_default_{f.name}"] = f.default
    return f"=_default_{f.name}"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in _fields(type(self)) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _comparison(names: list[str], frozen: bool) -> dict[str, Any]:
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda self: ()

    def equal(self: object, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: object) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed if frozen else None}


def _protection(slots: bool) -> dict[str, Any]:
    def set_refused(self: object, name: str, value: object) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def delete_refused(self: object, name: str) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    methods: dict[str, Any] = {"__setattr__": set_refused, "__delattr__": delete_refused}
    if slots:  # the default of pickle sets attributes, which is not allowed here
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    return methods


def _state(self: Any) -> list[object]:
    return [getattr(self, f.name) for f in _fields(type(self))]


def _restore(self: Any, state: list[object]) -> None:
    for f, value in zip(_fields(type(self)), state, strict=True):
        object.__setattr__(self, f.name, value)


# -- named tuples ----------------------------------------------------------------------------------


class _NamedTupleMaker(type):
    """Makes the class that `class X(NamedTuple)` says."""

    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
        if not bases:
            return type.__new__(cls, name, bases, space)
        fields = space.pop("__annotations__", {})
        defaults = [space.pop(field) for field in fields if field in space]
        module = space.pop("__module__")
        made = namedtuple(name, fields, defaults=defaults, module=module)  # noqa: PYI024
        made.__annotations__ = made.__new__.__annotations__ = fields
        for attribute, value in space.items():
            setattr(made, attribute, value)
        return made


if not TYPE_CHECKING:

    class NamedTuple(metaclass=_NamedTupleMaker):
        """`typing.NamedTuple`, whose annotations stay texts."""
