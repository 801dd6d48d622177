"""What the layouts of logical operations go by: their equivalent among the unified operations, and
facts of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.lane_layout import register_lanes
from ptosim.ground.ir.types import PtrType, VirtualMaskType, VirtualVRegType

PREFIX = "pto.vmi."
UNARY = frozenset(["vabs", "vneg", "vrelu", "vexp", "vln", "vsqrt", "vnot"])
BINARY = frozenset((
    "vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vand", "vor", "vxor", "vshl", "vshr",
))  # fmt: skip
SCALAR = frozenset(["vadds", "vmuls", "vmaxs", "vmins", "vshls", "vshrs"])
COMPARE = frozenset(["vcmp", "vcmps"])
OTHER = frozenset(["vsel", "vmula", "vaxpy", "vlrelu", "vprelu", "vmull", "vaddc", "vaddcs"])
ELEMENTWISE = UNARY | BINARY | SCALAR | COMPARE | OTHER
"""Operations whose vectors all have one layout."""
REDUCTIONS = frozenset(["vcadd", "vcmax", "vcmin"])


def is_logical(value: Value | None) -> bool:
    """True for a logical vector or mask."""
    return value is not None and isinstance(value.type, (VirtualVRegType, VirtualMaskType))


def is_vector(value: Value | None) -> bool:
    """True for a logical vector."""
    return value is not None and isinstance(value.type, VirtualVRegType)


def is_operation(op: Operation) -> bool:
    """True for an operation of the level."""
    return op.name.startswith(PREFIX)


def word(op: Operation) -> str:
    """Return the name of an operation's equivalent among the unified ones, without the prefix; its
    own name if it has none."""
    return op.meaning.removeprefix("pto.").removeprefix("vmi.")


def operand(op: Operation, *names: str) -> Operand | None:
    """Return the first operand of a name that the operation has."""
    for name in names:
        found = op.bound.get(name)
        if isinstance(found, Operand):
            return found
    return None


def value_of(op: Operation, *names: str) -> Value | None:
    """Return the value of the first operand of a name that the operation has."""
    found = operand(op, *names)
    return None if found is None else found.value


def vector(op: Operation, *names: str) -> Value:
    """Return a vector operand."""
    value = value_of(op, *names)
    assert value is not None, (op.name, names)
    return value


def lanes_of(value: Value) -> int:
    """Return the lanes of a logical value."""
    assert isinstance(value.type, (VirtualVRegType, VirtualMaskType))
    return value.type.lanes


def elem_of(value: Value) -> str:
    """Return the spelling of a vector's element type."""
    assert isinstance(value.type, VirtualVRegType)
    return value.type.elem.name


def bits_of(value: Value) -> int:
    """Return the width of a vector's lanes."""
    assert isinstance(value.type, VirtualVRegType)
    return value.type.elem.bits


def result(op: Operation, name: str = "dst") -> Value:
    """Return a result by its name in the row, else the first."""
    return op.result_values.get(name) or op.results[0]


def attribute(op: Operation, *names: str) -> Any:
    """Return the first attribute that the operation has, None if it has none."""
    for name in names:
        found = op.attributes.get(name)
        if found is None and name in op.attrs:
            found = attr_value(op.attrs[name])
        if found is not None:
            return found
    return None


def group_count(op: Operation) -> int | None:
    """Return the number of groups that an operation names."""
    found = attribute(op, "group", "num_groups")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def constant(found: Operand | None) -> int | None:
    """Return the number that the text fixes an operand to."""
    if found is None:
        return None
    number = found.value.const if found.value is not None else found.const
    return number if isinstance(number, int) else None


def block_lanes(bits: int) -> int:
    """Return the lanes of a block of 32 bytes."""
    return register_lanes(bits) // 8


def pointer_elem(op: Operation, name: str = "base") -> str:
    """Return the element type of a pointer operand."""
    found = operand(op, name)
    kind = None if found is None else (found.value.type if found.value is not None else found.type)
    return kind.elem.name if isinstance(kind, PtrType) else str(getattr(kind, "elem", "i8"))


def has_logical(ops: Sequence[Operation]) -> bool:
    """True if there are logical operations or calls that hand logical values over."""
    return any(is_operation(op) or any(map(is_logical, op.operand_values())) for op in ops)
