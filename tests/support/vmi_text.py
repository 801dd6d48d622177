"""Writes programs of logical vectors: arguments in UB, operations with their types, transfers.

with Text([("in", "f32", 128), ("out", "f32", 8)]) as t:
    m = t.every(128)
    t.store(t.total(t.load(0, 128), m, 8), 1)
print(t.text)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

DIALECT = {"hif8", "f4E1M2x2", "f4E2M1x2", "bf16x2"}
BITS = {"f32": 32, "f16": 16, "bf16": 16, "bf16x2": 32}


def bits_of(elem: str) -> int:
    if elem in BITS:
        return BITS[elem]
    return 8 if elem.startswith("f8") or elem in DIALECT else int(elem.lstrip("uis"))


def spelled(elem: str) -> str:
    return f"!pto.{elem}" if elem in DIALECT else elem


class Vec(NamedTuple):
    """A vector, or a mask where there is no element type."""

    name: str
    count: int
    elem: str = ""

    @property
    def type(self) -> str:
        if not self.elem:
            return f"!pto.vmi.mask<{self.count}xpred>"
        return f"!pto.vmi.vreg<{self.count}x{spelled(self.elem)}>"


class Text:
    """A kernel: arguments are `(role, elem, elements)`; each has its own place in UB and is there from
    the start, those of role `out` too; these go back at the end. `temp` is a place without an
    argument."""

    def __init__(self, args: Sequence[tuple[str, str, int]], name: str = "kernel") -> None:
        self.name = name
        self.args = list(args)
        self.body: list[str] = []
        self.head: list[str] = []
        self.functions: list[str] = []
        self.places: list[int] = []
        self._made: dict[tuple, str] = {}
        self._count = 0
        at = 0
        for _, elem, count in args:
            self.places.append(at)
            at += -(-count * bits_of(elem) // 8 // 256) * 256
        self.room = at

    # -- names ------------------------------------------------------------------------------------

    def fresh(self, stem: str = "v") -> str:
        self._count += 1
        return f"%{stem}{self._count}"

    def const(self, value: Any, type_: str = "index") -> str:
        key = ("const", repr(value), type_)
        if key not in self._made:
            name = self._made[key] = self.fresh("c")
            self.head.append(f"{name} = arith.constant {value} : {type_}")
        return self._made[key]

    def pointer(self, arg: int, elem: str | None = None) -> tuple[str, str]:
        """A pointer to the place of an argument, and its type."""
        elem = elem or self.args[arg][1]
        type_ = f"!pto.ptr<{spelled(elem)}, ub>"
        key = ("ptr", arg, elem)
        if key not in self._made:
            at = self.const(self.places[arg], "i64")
            name = self._made[key] = self.fresh("p")
            self.head.append(f"{name} = pto.castptr {at} : i64 -> {type_}")
        return self._made[key], type_

    def line(self, text: str) -> None:
        self.body.append(text)

    # -- operations -------------------------------------------------------------------------------

    def op(
        self,
        name: str,
        operands: Sequence[Vec | tuple[str, str]],
        result: Vec | None,
        attrs: str = "",
    ) -> Vec:
        """An operation of vectors, masks and scalars (name, type)."""
        names = ", ".join(o.name if isinstance(o, Vec) else o[0] for o in operands)
        types = ", ".join(o.type if isinstance(o, Vec) else o[1] for o in operands)
        attrs = f" {{{attrs}}}" if attrs else ""
        assert result is not None
        made = result._replace(name=self.fresh())
        self.line(f"{made.name} = pto.vmi.{name} {names}{attrs} : {types} -> {made.type}")
        return made

    def two(self, name: str, a: Vec, b: Vec, mask: Vec | None = None) -> Vec:
        return self.op(name, [a, b, *([mask] if mask else [])], a)

    def one(self, name: str, a: Vec) -> Vec:
        return self.op(name, [a], a)

    def by(self, name: str, a: Vec, scalar: Any, mask: Vec | None = None) -> Vec:
        """A vector and a scalar constant; of shifts 16 bits."""
        type_ = "i16" if name in ("vshls", "vshrs") else a.elem
        value = (self.const(scalar, type_), type_)
        return self.op(name, [a, value, mask or self.every(a.count)], a)

    def every(self, count: int) -> Vec:
        mask = Vec(self.fresh("m"), count)
        self.line(f'{mask.name} = pto.vmi.pset "PAT_ALL" : {mask.type}')
        return mask

    def first(self, count: int, active: int) -> Vec:
        return self.op("create_mask", [(self.const(active), "index")], Vec("", count))

    def first_of_groups(self, groups: int, size: int, active: int) -> Vec:
        attrs = f"num_groups = {groups}, group_size = {size}"
        count = (self.const(active), "index")
        return self.op("create_group_mask", [count], Vec("", groups * size), attrs)

    def fill(self, count: int, elem: str, value: Any) -> Vec:
        return self.op("vbrc", [(self.const(value, elem), elem)], Vec("", count, elem))

    def spread(self, a: Vec, count: int) -> Vec:
        """One lane for each group."""
        return self.op("vbrc", [a], a._replace(count=count), f"group = {a.count}")

    def cast(self, a: Vec, elem: str, *, rounding: str = "", sat: str = "") -> Vec:
        words = [f'rounding = "{rounding}"'] if rounding else []
        words += [f'saturate = "{sat}"'] if sat else []
        return self.op("vcvt", [a], a._replace(elem=elem), ", ".join(words))

    def bits(self, a: Vec, elem: str) -> Vec:
        count = a.count * bits_of(a.elem) // bits_of(elem)
        return self.op("vinterpret_cast", [a], Vec("", count, elem))

    def total(self, a: Vec, mask: Vec, groups: int | None = None) -> Vec:
        words = [f"group = {groups}"] if groups else []
        words += ["reassoc"] if a.elem in BITS else []
        return self.op("vcadd", [a, mask], a._replace(count=groups or 1), ", ".join(words))

    def extreme(self, name: str, a: Vec, mask: Vec, groups: int | None = None) -> Vec:
        attrs = f"group = {groups}" if groups else ""
        return self.op(name, [a, mask], a._replace(count=groups or 1), attrs)

    def load(
        self, arg: int, count: int, offset: Any = 0, *, elem: str | None = None, more: str = "",
        attrs: str = "",
    ) -> Vec:  # fmt: skip
        """A load at an offset (a number, or a name); `more` are its other operands."""
        pointer, type_ = self.pointer(arg, elem)
        made = Vec(self.fresh(), count, elem or self.args[arg][1])
        at = offset if isinstance(offset, str) else self.const(offset)
        attrs = f" {{{attrs}}}" if attrs else ""
        self.line(
            f"{made.name} = pto.vmi.vload {pointer}[{at}]{more}{attrs} : {type_} -> {made.type}"
        )
        return made

    def rows(
        self, arg: int, groups: int, size: int, stride: int, offset: Any = 0, **more: Any
    ) -> Vec:
        """Groups of elements a stride apart."""
        step = self.const(stride)
        return self.load(
            arg, groups * size, offset, more=f", {step}", attrs=f"group = {groups}", **more
        )

    def store(
        self, a: Vec, arg: int, offset: Any = 0, *, mask: Vec | None = None, elem: str | None = None,
        stride: int | None = None, groups: int | None = None,
    ) -> None:  # fmt: skip
        pointer, type_ = self.pointer(arg, elem or a.elem)
        at = offset if isinstance(offset, str) else self.const(offset)
        more, types, attrs = "", f"{a.type}, {type_}", ""
        if groups is not None:
            more, attrs = f", {self.const(stride)}", f" {{group = {groups}}}"
        if mask is not None:
            more, types = f", {mask.name}", f"{types}, {mask.type}"
        self.line(f"pto.vmi.vstore {a.name}, {pointer}[{at}]{more}{attrs} : {types}")

    # -- the program ------------------------------------------------------------------------------

    def _copy(self, arg: int, *, to_ub: bool) -> list[str]:
        _, elem, count = self.args[arg]
        size = self.const(count * bits_of(elem) // 8, "i64")
        zero, one = self.const(0, "i64"), self.const(1, "i64")
        pointer, type_ = self.pointer(arg)
        gm = f"!pto.ptr<{spelled(elem)}, gm>"
        if to_ub:
            return [
                f"pto.mte_gm_ub %arg{arg}, {pointer}, {zero}, {size} nburst({one}, {size}, {size})",
                f"  : {gm}, {type_}, i64, i64, i64, i64, i64",
            ]
        return [
            f"pto.mte_ub_gm {pointer}, %arg{arg}, {size} nburst({one}, {size}, {size})",
            f"  : {type_}, {gm}, i64, i64, i64, i64",
        ]

    @property
    def text(self) -> str:
        """The module."""
        given = [i for i, (role, _, _) in enumerate(self.args) if role != "temp"]
        into = [line for i in given for line in self._copy(i, to_ub=True)]
        out = [
            line
            for i, (role, _, _) in enumerate(self.args)
            if role == "out"
            for line in self._copy(i, to_ub=False)
        ]
        args = ", ".join(f"%arg{i}: !pto.ptr<{spelled(self.args[i][1])}, gm>" for i in given)
        lines = [
            *self.head,
            *into,
            'pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]',
            'pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]',
            "pto.vecscope {",
            *(f"  {line}" for line in self.body),
            "}",
            'pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
            'pto.wait_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
            *out,
            "pto.barrier #pto.pipe<PIPE_ALL>",
            "return",
        ]
        inner = "\n".join(f"    {line}" for line in lines)
        functions = "\n".join(self.functions)
        kind = "pto.kernel_kind = #pto.kernel_kind<vector>"
        return (
            f'module attributes {{pto.target_arch = "a5", {kind}}} {{\n'
            f"  func.func @{self.name}({args}) attributes {{pto.kernel}} {{\n{inner}\n  }}\n"
            f"{functions}}}\n"
        )
