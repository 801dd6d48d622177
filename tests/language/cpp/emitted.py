"""C++ in the regular form in which the assembler emits it, printed from a program at level 3 whose
flags are written out: declarations, addresses, calls, flags, loops, branches.

A printer for tests: what it has no form for ends in `Unprinted`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ptosim.ground.ir.attributes import Enum
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import PtrType, ScalarType, TileType, ViewType
from ptosim.ground.isa.schema import enums


class Unprinted(Exception):
    """An operation or type that has no form here."""


_SCALARS = {
    "f32": "float", "f16": "half", "bf16": "bfloat16_t", "i1": "bool", "index": "int64_t",
    "i8": "int8_t", "si8": "int8_t", "i16": "int16_t", "i32": "int32_t", "si32": "int32_t",
    "i64": "int64_t", "ui8": "uint8_t", "f8E4M3FN": "float8_e4m3_t", "f8E5M2": "float8_e5m2_t",
    "f8E8M0FNU": "float8_e8m0_t", "hif8": "hifloat8_t", "ui64": "uint64_t", "ui16": "uint16_t", "ui32": "uint32_t",
}  # fmt: skip
_LOCS = {"vec": "Vec", "mat": "Mat", "left": "Left", "right": "Right", "acc": "Acc", "bias": "Bias",
         "scaling": "Scaling"}  # fmt: skip
_LAYOUTS = {"row_major": "RowMajor", "col_major": "ColMajor", "none_box": "NoneBox"}
_PADS = ("Null", "Zero", "Max", "Min")
_BINARY = {"addi": "+", "subi": "-", "muli": "*", "divsi": "/", "remsi": "%", "andi": "&", "ori": "|",
           "xori": "^", "addf": "+", "subf": "-", "mulf": "*", "divf": "/", "divui": "/", "remui": "%"}  # fmt: skip
_COMPARED = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "ult": "<",
             "ule": "<=", "ugt": ">", "uge": ">="}  # fmt: skip
_NOTHING = frozenset(("func.return", "arith.constant", "scf.yield"))


def emitted(function: Operation, args: Sequence[Any]) -> str:
    """Return a function as C++. Raises Unprinted."""
    return "\n".join(_Printer().function(function, args)) + "\n"


def _type(dtype: Any) -> str:
    if dtype.name not in _SCALARS:
        raise Unprinted(dtype.name)
    return _SCALARS[dtype.name]


class _Printer:
    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.views: dict[Any, Operation] = {}
        self.count = 0

    def function(self, op: Operation, args: Sequence[Any]) -> Iterator[str]:
        """Yield the lines of the file."""
        params = []
        for value in args:
            self.names[value] = value.name
            if isinstance(value.type, PtrType):
                params.append(f"__gm__ {_type(value.type.elem)}* {value.name}")
            elif isinstance(value.type, ScalarType):
                params.append(f"{_type(value.type.dtype)} {value.name}")
            else:
                raise Unprinted(f"an argument of {value.type}")
        yield '#include "pto/pto-inst.hpp"'
        yield "using namespace pto;"
        yield f"__global__ AICORE void kernel_{op.name_end}({', '.join(params)}) {{"
        yield from self.block(op.regions[0].blocks[0].ops, "  ")
        yield "}"

    def block(self, ops: Sequence[Operation], indent: str) -> Iterator[str]:
        """Yield the lines of operations."""
        for op in ops:
            if op.name in _NOTHING:
                continue
            word = op.name.rpartition(".")[2]
            handler = getattr(self, f"_{op.name.replace('.', '_')}", None)
            if handler is not None:
                lines = handler(op)
            elif op.name.startswith("arith.") and word in _BINARY:
                lines = self.binary(op, _BINARY[word])
            elif op.name.startswith("pto.t"):
                lines = self.instruction(op)
            else:
                raise Unprinted(op.name)
            yield from (indent + line for line in lines)

    # -- values ------------------------------------------------------------------------------------

    def fresh(self, value: Any) -> str:
        """Return the name of a new variable, as the assembler counts them."""
        self.count += 1
        self.names[value] = f"v{self.count}_"
        return self.names[value]

    def use(self, operand: Any) -> str:
        """Return an operand as an expression."""
        if operand.value is not None and operand.value in self.names:
            return self.names[operand.value]
        if operand.const is None or isinstance(operand.const, (str, Enum)):
            raise Unprinted(f"operand {operand}")
        dtype = getattr(operand.type, "dtype", None)
        if isinstance(operand.const, bool):
            return str(operand.const).lower()
        if isinstance(operand.const, int):
            return f"({_type(dtype)}) {operand.const}" if dtype is not None else f"{operand.const}"
        if operand.const != operand.const or abs(operand.const) == float("inf"):
            raise Unprinted("a special value")
        return f"({_type(dtype)}) {operand.const!r}f"

    def made(self, op: Operation, text: str) -> list[str]:
        """Return the declaration of the result of an operation."""
        (value,) = op.results
        if not isinstance(value.type, ScalarType):
            raise Unprinted(f"a result of {value.type}")
        return [f"{_type(value.type.dtype)} {self.fresh(value)} = {text};"]

    def binary(self, op: Operation, sign: str) -> list[str]:
        """Return arithmetic."""
        lhs, rhs = self.use(op.bound["lhs"]), self.use(op.bound["rhs"])
        if op.name.endswith(("divui", "remui")):
            lhs, rhs = f"(uint64_t) {lhs}", f"(uint64_t) {rhs}"
        return self.made(op, f"{lhs} {sign} {rhs}")

    def _arith_cmpi(self, op: Operation) -> list[str]:
        word = op.bound["predicate"].const
        lhs, rhs = self.use(op.bound["lhs"]), self.use(op.bound["rhs"])
        if word.startswith("u"):
            lhs, rhs = f"(uint64_t) {lhs}", f"(uint64_t) {rhs}"
        return self.made(op, f"{lhs} {_COMPARED[word]} {rhs}")

    def _arith_select(self, op: Operation) -> list[str]:
        c, a, b = (self.use(o) for o in op.bound.values() if getattr(o, "value", None) is not None)
        return self.made(op, f"{c} ? {a} : {b}")

    def _arith_index_cast(self, op: Operation) -> list[str]:
        (given,) = (o for o in op.bound.values() if getattr(o, "type", None) is not None)
        return self.made(op, f"({_type(op.results[0].type.dtype)}) {self.use(given)}")

    _arith_extsi = _arith_trunci = _arith_sitofp = _arith_fptosi = _arith_index_cast

    def _arith_minsi(self, op: Operation) -> list[str]:
        lhs, rhs = self.use(op.bound["lhs"]), self.use(op.bound["rhs"])
        return self.made(op, f"{lhs} < {rhs} ? {lhs} : {rhs}")

    def _pto_get_block_idx(self, op: Operation) -> list[str]:
        return self.made(op, f"{op.name.removeprefix('pto.')}()")

    _pto_get_block_num = _pto_get_block_idx

    def _pto_get_subblock_idx(self, op: Operation) -> list[str]:
        return self.made(op, "get_subblockid()")

    def _pto_addptr(self, op: Operation) -> list[str]:
        (value,) = op.results
        text = f"{self.use(op.bound['ptr'])} + {self.use(op.bound['offset'])}"
        return [f"__gm__ {_type(value.type.elem)}* {self.fresh(value)} = {text};"]

    def _pto_load_scalar(self, op: Operation) -> list[str]:
        return self.made(op, f"{self.use(op.bound['ptr'])}[{self.use(op.bound['offset'])}]")

    # -- tiles and windows -------------------------------------------------------------------------

    def _pto_alloc_tile(self, op: Operation) -> list[str]:
        (value,) = op.results
        name, tile = self.fresh(value), value.type
        if not isinstance(tile, TileType) or tile.loc not in _LOCS or tile.compact:
            raise Unprinted(str(tile))
        if op.bound["addr"] is None:
            raise Unprinted("a tile without address")
        open_ = [
            self.use(op.bound[n]) for n in ("valid_row", "valid_col") if op.bound[n] is not None
        ]
        words = [f"TileType::{_LOCS[tile.loc]}", _type(tile.dtype), tile.rows, tile.cols,
                 f"BLayout::{_LAYOUTS[tile.blayout]}", _extent(tile.v_row), _extent(tile.v_col),
                 f"SLayout::{_LAYOUTS[tile.slayout]}", tile.fractal, f"PadValue::{_PADS[tile.pad]}"]  # fmt: skip
        shape = f"({', '.join(open_)})" if open_ else ""
        return [
            f"Tile<{', '.join(map(str, words))}> {name}{shape};",
            f"TASSIGN({name}, {self.use(op.bound['addr'])});",
        ]

    def _pto_make_tensor_view(self, op: Operation) -> list[str]:
        self.views[op.results[0]] = op
        return []

    def _pto_partition_view(self, op: Operation) -> list[str]:
        view = self.views.get(op.bound["source"].value)
        (value,) = op.results
        if view is None or not isinstance(value.type, ViewType):
            raise Unprinted("a window of what is no view")
        strides = [self.use(s) for s in view.bound["strides"]]
        offsets = [self.use(o) for o in op.bound["offsets"]]
        sizes = [self.use(s) for s in op.bound["sizes"]]
        layout = view.attributes.get("layout") or "nd"
        if layout not in ("nd", "dn"):
            raise Unprinted(f"layout {layout}")
        layout = f"Layout::{layout.upper()}"
        moved = " + ".join(f"{o} * {s}" for o, s in zip(offsets, strides, strict=True))
        ones = ["1"] * (5 - len(sizes))
        whole = f"{sizes[0]} * {strides[0]}"
        name = self.fresh(value)
        return [
            f"pto::Shape<-1, -1, -1, -1, -1> {name}s = "
            f"pto::Shape<-1, -1, -1, -1, -1>({', '.join([*ones, *sizes])});",
            f"pto::Stride<-1, -1, -1, -1, -1> {name}t = "
            f"pto::Stride<-1, -1, -1, -1, -1>({', '.join([*[whole] * len(ones), *strides])});",
            f"GlobalTensor<{_type(value.type.elem)}, pto::Shape<-1, -1, -1, -1, -1>, "
            f"pto::Stride<-1, -1, -1, -1, -1>, {layout}> {name} = "
            f"GlobalTensor<{_type(value.type.elem)}, pto::Shape<-1, -1, -1, -1, -1>, "
            f"pto::Stride<-1, -1, -1, -1, -1>, {layout}>"
            f"({self.use(view.bound['ptr'])} + ({moved}), {name}s, {name}t);",
        ]

    def instruction(self, op: Operation) -> list[str]:
        """Return an instruction on tiles: results first."""
        assert op.variant is not None
        if op.results:
            raise Unprinted(f"the result of {op.name}")
        modes = [self._enum(op, name) for name in op.attrs]
        given: list[str] = []
        rows = [*op.variant.outs, *op.variant.ins]
        if op.name.startswith("pto.tquant"):  # scratch and further results come after the inputs
            late = [r for r in rows if r.name in ("exp", "max", "scaling", "exp_zz", "tmp")]
            last = [r for r in rows if r.name == "offset"]
            rows = [r for r in rows if r not in late and r not in last] + late + last
        for row in rows:
            value = op.bound.get(row.name)
            if isinstance(value, list):
                raise Unprinted(f"a list of {op.name}")
            if value is not None:
                given.append(self.use(value))
        word = op.name.removeprefix("pto.").upper().replace(".", "_")
        named = {o.name: op.bound.get(o.name) for o in op.variant.named}
        if any(value is not None for name, value in named.items() if name != "fp"):
            raise Unprinted(f"a named operand of {op.name}")
        if named.get("fp") is not None:
            given, word = [*given, self.use(named["fp"])], f"{word}_FP"
        word = "TMATMUL_MX" if word.startswith("TMATMUL_MX") else word
        word = "TQUANT" if word == "TQUANT_MX" else word
        if word == "TCVT" and not modes:
            modes = ["RoundMode::CAST_RINT"]
        first = [m for m in modes if m.startswith(("QuantType", "MxQuantAlg", "axis"))]
        first = [m.removeprefix("axis") for m in sorted(first, reverse=True)]
        kinds = f"<{', '.join(first)}>" if first else ""
        return [
            f"{word}{kinds}({', '.join([*given, *(m for m in modes if m not in first and m[:4] != 'axis')])});"
        ]

    def _enum(self, op: Operation, name: str) -> str:
        """Return an attribute as a member of an enumeration of C++."""
        assert op.definition is not None
        row, value = op.definition.attrs.get(name), op.attributes.get(name)
        member = getattr(value, "member", value)
        if name == "grpAxis" and member is not None:
            return f"axis{str(member).removeprefix('axis')}"
        if row is None or not isinstance(member, str) or row.type not in enums():
            raise Unprinted(f"attribute {name} of {op.name}")
        if row.type == "round_mode":
            return f"RoundMode::CAST_{member}"
        kind = {"cmp": "CmpMode"}.get(row.type) or "".join(map(str.title, row.type.split("_")))
        return f"{kind}::{member.upper() if row.type == 'cmp' else member}"

    def _pto_set_flag(self, op: Operation) -> list[str]:
        words = [op.bound[n].const for n in ("src_pipe", "dst_pipe", "event")]
        if not all(isinstance(w, Enum) for w in words):
            raise Unprinted("a flag by number")
        return [f"{op.name.removeprefix('pto.')}({', '.join(w.member for w in words)});"]

    _pto_wait_flag = _pto_set_flag

    def _pto_barrier(self, op: Operation) -> list[str]:
        (pipe,) = (
            o.const for o in op.bound.values() if isinstance(getattr(o, "const", None), Enum)
        )
        return [f"pipe_barrier({pipe.member});"]

    # -- control flow ------------------------------------------------------------------------------

    def _scf_for(self, op: Operation) -> Iterator[str]:
        block = op.regions[0].blocks[0]
        counter, *carried = block.values
        bounds = [self.use(op.bound[n]) for n in ("lower", "upper", "step")]
        yield from self._carried(op.results, op.bound["init"])
        for inside, result in zip(carried, op.results, strict=True):
            self.names[inside] = self.names[result]
        i = self.fresh(counter)
        kind = _type(counter.type.dtype)
        yield f"for ({kind} {i} = {bounds[0]}; {i} < {bounds[1]}; {i} += {bounds[2]}) {{"
        yield from self.block(block.ops, "  ")
        yield from self._yielded(block.ops, op.results)
        yield "}"

    def _scf_if(self, op: Operation) -> Iterator[str]:
        for result in op.results:
            yield f"{_type(result.type.dtype)} {self.fresh(result)} = 0;"
        condition = self.use(op.bound["condition"])
        for region, head in zip(op.regions, (f"if ({condition}) {{", "} else {"), strict=False):
            yield head
            yield from self.block(region.blocks[0].ops, "  ")
            yield from self._yielded(region.blocks[0].ops, op.results)
        yield "}"

    def _carried(self, results: Sequence[Any], starts: Sequence[Any]) -> Iterator[str]:
        for result, start in zip(results, starts, strict=True):
            if not isinstance(result.type, ScalarType):
                raise Unprinted("a carried tile")
            text = self.use(start)
            yield f"{_type(result.type.dtype)} {self.fresh(result)} = {text};"

    def _yielded(self, ops: Sequence[Operation], results: Sequence[Any]) -> Iterator[str]:
        if not results:
            return
        given = ops[-1].bound.get("values")
        if given is None or len(results) > 1:
            raise Unprinted("several carried values")
        for result, value in zip(results, given, strict=True):
            yield f"  {self.names[result]} = {self.use(value)};"


def _extent(count: int | None) -> int:
    return -1 if count is None or count < 0 else count
