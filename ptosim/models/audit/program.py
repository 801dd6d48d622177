"""The quantising steps of a program, observed while it runs: TQUANT, the cube's output path, and
conversions to bytes after arithmetic of the program's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Bound, Inst
from ptosim.engine.core.engine import Engine
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.records import dataclass, replace
from ptosim.launch.program import LoadedProgram
from ptosim.machine.core import Core
from ptosim.machine.numbers.fixpipe import scale_of
from ptosim.machine.quant.mlir.passes import storage_of
from ptosim.machine.quant.mlir.types import UniformType, float_array
from ptosim.machine.quant.parameters import Scheme, scheme, storage
from ptosim.machine.tile import TileRef, load_tile
from ptosim.models.audit.data import find_in_step, find_in_sums, worst
from ptosim.models.audit.repair import Fault
from ptosim.models.audit.steps import REAL, SUMS, Step
from ptosim.models.audit.watched import Accumulators, Groups, Pairs, key_of
from ptosim.models.quant.diff import Setting
from ptosim.ops.base.binding import Binding
from ptosim.ops.cube import outward
from ptosim.ops.tile.quant_casts import element, parameters, uniform

# -- what values went through before ---------------------------------------------------------------

_LONGEST = 16
"""Steps that a formula has at most; what is longer is no quantisation."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a tile went through: the numbers it began with, and (what, with which) since then."""

    x: np.ndarray
    steps: tuple[tuple[str, Any], ...] = ()


@lru_cache(maxsize=1)
def _kinds() -> Mapping[str, str]:
    rows = read_toml("quant/systems.toml")["steps"]
    return {f"pto.{name}": kind for kind, names in rows.items() for name in names}


@lru_cache(maxsize=1)
def _roundings() -> Mapping[str, str]:
    return read_toml("quant/systems.toml")["rounding"]


def kind_of(name: str) -> str:
    """Return what an operation does to a formula, '' if nothing."""
    return _kinds().get(name, "")


class History:
    """The past of every tile of a run."""

    def __init__(self) -> None:
        self._past: dict[tuple[int, str, int], Past] = {}

    def follow(self, core: Core, binding: Binding) -> Past | None:
        """Take an operation that is about to execute into account; return the past of what it
        makes bytes of, None for every other."""
        kind = kind_of(binding.op.name)
        refs = [v for v in binding.values.values() if isinstance(v, TileRef)]
        if not kind or len(refs) < 2:
            return None
        source, dst = refs[0], binding.values["dst"]
        past = self._past.get(key_of(core, source))
        if past is None or len(past.steps) >= _LONGEST or past.x.shape != (dst.v_row, dst.v_col):
            if str(source.type.dtype) != "f32":
                return None
            past = Past(np.array(load_tile(core, source)))
        past = replace(past, steps=(*past.steps, (kind, _operand(core, binding, kind, source))))
        self._past[key_of(core, dst)] = past
        return past if kind == "convert" and str(dst.type.dtype) in _BYTES else None


def _operand(core: Core, binding: Binding, kind: str, source: TileRef) -> Any:
    """The other operand of arithmetic; of a conversion its types and its rounding."""
    if kind == "convert":
        dst = binding.values["dst"]
        return str(source.type.dtype), str(dst.type.dtype), str(binding.attr("rmode"))
    others = [
        (n, v) for n, v in binding.values.items() if n not in ("dst", "tmp") and v is not source
    ]
    if not others:
        return None
    value = others[0][1]
    return np.array(load_tile(core, value)) if isinstance(value, TileRef) else np.asarray(value)


# -- formulas --------------------------------------------------------------------------------------


def formula(past: Past) -> tuple[Scheme, Setting] | None:
    """Return the formula of a past with its setting; None for one that is no quantisation: without
    a scale, with two, or with steps in another order."""
    scale: tuple[str, np.ndarray] | None = None
    zero: tuple[str, np.ndarray] | None = None
    types = ["f32"]
    rounding = ""
    for kind, operand in past.steps:
        is_integer = types[-1].startswith("i")
        if kind == "convert":
            _, made, mode = operand
            if made.lstrip("u").startswith("i") and not rounding:
                rounding = _roundings().get(mode, "")
            types.append(made)
        elif kind == "add" and zero is None and scale is not None:
            zero = ("after" if is_integer else "before", operand)
        elif kind in ("multiply", "divide") and scale is None and len(types) == 1:
            scale = (kind, operand)
        elif kind != "clamp":
            return None
    if scale is None or not rounding or _is_missing(scale, zero) or _is_tensor(scale, zero):
        return None
    own = replace(
        scheme("pto-hw"), name="", scale=scale[0], rounding=rounding,
        zero="before" if zero is None else zero[0], through=_through(types), outputs=(),
    )  # fmt: skip
    return own, _setting(past.x, scale, zero, types[-1])


def _is_tensor(scale: tuple[str, np.ndarray], zero: tuple[str, np.ndarray] | None) -> bool:
    """True if an operand has a value for each element: a residual that is added, a gate."""
    found = [scale[1], *([] if zero is None else [zero[1]])]
    return any(p.ndim > 1 and min(p.shape) > 1 for p in found)


def _is_missing(scale: tuple[str, Any], zero: tuple[str, Any] | None) -> bool:
    """True if a parameter is not known."""
    return scale[1] is None or (zero is not None and zero[1] is None)


def _through(types: list[str]) -> tuple[str, ...]:
    """The conversions on the way that can change a result: f16 before there was an integer."""
    first = next(i for i, t in enumerate(types) if t.lstrip("u").startswith("i"))
    words = ("f16",) if "f16" in types[:first] else ()
    return words if first == len(types) - 1 or words else ("s32", "f16")


def _setting(
    x: np.ndarray,
    scale: tuple[str, np.ndarray],
    zero: tuple[str, np.ndarray] | None,
    out: str,
) -> Setting:
    factor = scale[1].astype(np.float32)
    factor = factor.reshape(1) if factor.size == 1 else factor
    with np.errstate(all="ignore"):
        given = factor if scale[0] == "divide" else np.float32(1) / factor
    shift = np.zeros(1) if zero is None else zero[1].astype(np.float64)
    shift = shift.reshape(1) if shift.size == 1 else shift
    shift, given, factor = _of_one_shape(shift, given, factor)
    return Setting(
        x, given, shift, storage(out), None, None, factor if scale[0] == "multiply" else None
    )


def _of_one_shape(*parameters: np.ndarray) -> list[np.ndarray]:
    """Parameters of one shape where one of them has several values."""
    shape = np.broadcast_shapes(*(p.shape for p in parameters if p.size > 1), (1,))
    return [np.broadcast_to(p, shape) for p in parameters]


# --------------------------------------------------------------------------------------------------

_OFFSET, _OFFSET_BITS = np.uint64(37), np.uint64(0x1FF)
_BYTES = ("i8", "ui8")
MICROSCALED = (
    "groups with a shared exponent: ONNX, MLIR, oneDNN and PyTorch quantise by other formulas; "
    "`ptosim quant explore` shows what its rules lose"
)


def audit_program(
    program: LoadedProgram, args: Mapping[str, Any], entry: str | None = None, **options: Any
) -> list[Step]:
    """Run a program and return its quantising steps in the order of their first execution.

    `options` are those of `Program.run`. Raises what it raises."""
    return audit_run(program, args, entry, **options)[0]


def audit_run(
    program: LoadedProgram, args: Mapping[str, Any], entry: str | None = None, **options: Any
) -> tuple[list[Step], list[Fault]]:
    """Return the same with all faults: of the steps, of pairs of them, and what the run itself
    finds in quantising operations."""
    watch = _Watch(program)
    result = program.run(args, entry=entry, observers=[watch], **options)
    steps = list(watch.steps.values())
    faults = [
        *(fault for step in steps for fault in step.faults),
        *worst([*watch.pairs.faults, *watch.sums.faults, *watch.groups.faults]),
    ]
    told = {fault.where.partition(":")[0] for fault in faults}
    for found in result.findings:
        if found.code.startswith(_QUANTISATION) and found.labels:
            line, _ = watch.source.line_column(found.labels[0].span.start)
            if f"line {line}" not in told:
                faults.append(_of_finding(found, f"line {line}"))
    return steps, faults


_QUANTISATION = "PTO72"
"""Begins the codes of what a run finds in quantising operations."""


def _of_finding(found: Diagnostic, where: str) -> Fault:
    cure = found.help or "; ".join(found.notes)
    what = "; ".join([found.message, *found.notes])
    title = catalog()[found.code].title
    return Fault(title, where, what, cure, why_not="the run says it")


_Open = tuple[Setting, Callable[[], np.ndarray], tuple[int, str, int] | None]
"""A step's setting, what reads its codes, and the tile that they are in."""


class _Watch:
    """Observes a run. What an operation reads is taken before it executes, because A2/A3 scales the
    source of TQUANT in place; what it stored afterwards."""

    def __init__(self, program: LoadedProgram) -> None:
        self.steps: dict[Operation, Step] = {}
        self.source = program.front.module.source
        self.pairs, self.sums, self.groups = Pairs(), Accumulators(), Groups()
        self._formula = str(program.profile["quant.scheme"])
        self._slots: Mapping[Any, int] = {}
        self._history = History()
        self._open: dict[tuple[int, Operation], _Open] = {}

    def on_start(self, engine: Engine) -> None:
        """Find where values of tensors are kept."""
        self._slots = engine.program.slots

    def on_issue(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """Take what an operation reads."""
        binding, op = getattr(bound, "binding", None), inst.op
        if binding is None or op is None:
            return
        self.pairs.issued(core, op, binding, self._place(op))
        self.sums.issued(core, binding, self._place(op))
        self.groups.issued(core, op, binding, self._place(op))
        if op.has("makes_codes"):
            self._tquant(core, op, binding)
        elif op.has("quant_cast"):
            self._cast_tile(core, op, binding)
        elif _leaves_the_cube(binding):
            self._fixpipe(core, op, binding)
        else:
            self._own_formula(core, op, binding)

    def on_commit(self, core: Core, inst: Inst, bound: Bound | None) -> None:
        """Judge the step, with what it stored."""
        op = inst.op
        if op is None:
            return
        found = self._open.pop((id(core), op), None)
        if found is not None:
            setting, stored, key = found
            step = self.steps[op]
            codes = stored()
            step.take(setting, codes)
            self.pairs.stored(key, setting, codes, step.name)
            if step.own is not None:
                find = find_in_sums if step.form == SUMS else find_in_step
                step.faults = worst([*step.faults, *find(step.name, setting, step.own)])
        elif op.has("quant_cast") and not op.bound.get("dst"):
            self._cast_value(core, op)

    def _step(self, op: Operation, form: str, name: str) -> Step:
        step = self.steps.get(op)
        if step is None:
            own = scheme(name) if name else None
            step = self.steps[op] = Step(self._place(op), form, own)
        return step

    def _opened(
        self,
        core: Core,
        op: Operation,
        binding: Binding,
        setting: Setting,
        stored: Callable[[], np.ndarray],
    ) -> None:
        """A step is about to execute; `stored` reads what it has made afterwards."""
        dst = binding.values.get("dst")
        key = key_of(core, dst) if isinstance(dst, TileRef) else None
        self._open[id(core), op] = setting, stored, key

    def _place(self, op: Operation) -> str:
        line, _ = self.source.line_column(op.start)
        return f"line {line}: {op.name.removeprefix('pto.')}"

    def _tquant(self, core: Core, op: Operation, binding: Binding) -> None:
        if binding.has("exp"):
            step = self._step(op, REAL, "")
            src = binding.tile("src")
            step.executions += 1
            step.elements += src.v_row * src.v_col
            step.note = MICROSCALED
            return
        is_page = binding.switch("tquant.int8_scale") == "div"
        self._step(op, REAL, "page" if is_page else "pto-hw")
        src, dst = binding.tile("src"), binding.tile("dst")
        scale, offset = parameters(binding, src)
        factor = np.array(scale(), np.float32)
        zero = np.zeros(1) if offset is None else np.array(offset(), np.float64)
        with np.errstate(all="ignore"):
            given = factor if is_page else np.float32(1) / factor
        setting = Setting(
            np.array(src.read()), given, zero, storage(str(dst.type.dtype)),
            multiplier=None if is_page else factor,
        )  # fmt: skip
        self._opened(core, op, binding, setting, lambda: np.array(dst.read()))

    def _fixpipe(self, core: Core, op: Operation, binding: Binding) -> None:
        dtype = _destination(binding)
        words = outward.words_of(binding, False, dtype)
        if words is None:
            return
        self._step(op, SUMS, "fixpipe")
        x = np.array(binding.tile("src").read())
        if binding.attr("reluPreMode") == "normal_relu":
            x = np.maximum(x, 0)  # its scale is above zero: the order does not matter
        held = np.array(words(x.shape[1]))
        offset = (held >> _OFFSET & _OFFSET_BITS).astype(np.int64)
        zero = np.where(offset > 255, offset - 512, offset)
        factor = scale_of(held, short=False)
        by_column = factor.size > 1
        shape = (1, factor.size) if by_column else (1,)
        with np.errstate(all="ignore"):
            given = np.float32(1) / factor
        setting = Setting(
            x, given.reshape(shape), zero.reshape(shape), storage(dtype),
            multiplier=factor.reshape(shape),
        )  # fmt: skip
        self._opened(core, op, binding, setting, lambda: _stored(binding, x.shape, dtype))

    def _cast_tile(self, core: Core, op: Operation, binding: Binding) -> None:
        type_ = uniform(element(op.bound["dst"].type))
        if type_ is None or uniform(element(op.bound["input"].type)) is not None:
            return  # the other way, or a view of stored values
        self._step(op, REAL, str(binding.attr("scheme") or self._formula))
        setting = _of_type(np.array(binding.tile("input").read()), type_)
        dst = binding.tile("dst")
        self._opened(core, op, binding, setting, lambda: np.array(dst.read()))

    def _cast_value(self, core: Core, op: Operation) -> None:
        type_ = uniform(element(op.results[0].type))
        given = op.bound["input"]
        slot = self._slots.get(given.value)
        if type_ is None or slot is None or uniform(element(given.type)) is not None:
            return
        step = self._step(op, REAL, str(op.attributes.get("scheme") or self._formula))
        stored = core.slots[self._slots[op.results[0]]]
        step.take(_of_type(np.asarray(core.slots[slot]), type_), np.asarray(stored))

    def _own_formula(self, core: Core, op: Operation, binding: Binding) -> None:
        past = self._history.follow(core, binding)
        if past is None:
            return
        found = formula(past)
        step = self._step(op, REAL, "")
        if found is None:
            step.executions += 1
            step.elements += past.x.size
            step.note = (
                "a conversion to bytes; no formula of scale, zero point and rounding before it"
            )
            return
        step.own, setting = found
        dst = binding.tile("dst")
        self._opened(core, op, binding, setting, lambda: np.array(dst.read()))


def _of_type(x: np.ndarray, type_: UniformType) -> Setting:
    """The setting of a cast to a uniform type: scales in the expressed type."""
    expressed = float_array(type_.expressed) or np.dtype(np.float32)
    scale, zero = type_.scale_array().astype(expressed), type_.zero_array()
    scale, zero = (np.atleast_1d(a) for a in (scale, zero))
    return Setting(x.astype(expressed), scale, zero, storage_of(type_.storage), type_.axis)


def _leaves_the_cube(binding: Binding) -> bool:
    src = binding.values.get("src")
    if not isinstance(src, TileRef) or src.type.loc != "acc":
        return False
    return binding.values.get("dst") is not None and _destination(binding) in _BYTES


def _destination(binding: Binding) -> str:
    value = binding.values["dst"]
    if isinstance(value, TileRef):
        return str(value.type.dtype)
    return str(getattr(getattr(value, "spec", None), "dtype", ""))


def _stored(binding: Binding, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if isinstance(binding.values["dst"], TileRef):
        found = binding.tile("dst").read()
    else:
        found = binding.view("dst").array()
    codes = np.array(found).reshape(-1)[: shape[0] * shape[1]].reshape(shape)
    return codes.view(storage(dtype).array)
