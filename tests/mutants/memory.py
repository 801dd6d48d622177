"""Programs with one place, extent or fill changed: which bytes are reached, not in which order.

Each change is of one line of a text that has one operation a line; what it needs is put before it.
Of programs on tiles at addresses `tests/oracle/histories.py` says which read bytes without a value or
of another tile. Of all others no oracle says what must come of it: a mutant counts as harmless exactly
if a run gives the same bytes as the program does, with memory that nothing wrote filled in two ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import numpy as np

import ptosim
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.launch import array_files
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.launch.description import sidecar_of
from ptosim.launch.sources import source_path
from tests.oracle.histories import judged
from tests.support.mutate import SYNC


class Change(NamedTuple):
    """A changed text; `line` counts from 1."""

    kind: str
    line: int
    text: str


Lines = list[str]
Maker = Callable[[Lines, int], Iterator[Lines]]
"""Yields what a line becomes, each time as lines in its place."""

_PLACE = re.compile(r"(pto\.alloc_tile\b.*?\baddr = )(%\w+)")
_CONST = re.compile(r"^\s*%(\w+) = arith\.constant (-?\d\w*) : (\w+)", re.M)
_WINDOW = re.compile(r"(pto\.partition_view .*?offsets = \[)([^\]]*)(\])")
_TILE = re.compile(
    r"^(\s*%\w+ = pto\.alloc_tile\b.*?: )(!pto\.tile_buf<\w+, )(\d+)x(\d+)x(\w+)(.*)"
)
_BLOCK = re.compile(r"^\s*(%\w+) = pto\.get_block_idx\b")
_FILLS = re.compile(
    r"^\s*pto\.(tload|texpands|tfillpad\w*|tmov|tci|mte_gm_ub|mte_gm_l1|tfill\w*|"
    r"mte_l1_l0[ab]|vsts|vmi\.vstore)\b.*"
)
_CAST = re.compile(r"^(\s*%\w+ = pto\.castptr )(%\w+)( : i64 -> !pto\.ptr<.*)")
_LANES = re.compile(r"^(.*\bpto\.(?:vlds|vsts|vmi\.vload|vmi\.vstore)\b.*\[)(%\w+)(\].*)")
_BURST = re.compile(r"^(\s*pto\.mte_\w+ .*, )(\d+)( nburst\()(\d+), (\d+), (\d+)(\).*)")
_MASK = re.compile(r'^(.*pto\.(?:pset_b\d+|vmi\.pset) ")PAT_ALL(".*)')
_LEFT = re.compile(r"^(.*pto\.(?:plt_b\d+|vmi\.plt|vmi\.create_mask) )(%\w+)( : (\w+).*)")
_VALID = re.compile(r"(pto\.set_validshape %\w+, )(%\w+)(, )(%\w+)")
_TAKES = re.compile(r"^(\s*pto\.mte_ub_gm )(%\w+)(, .*)")
_INS = re.compile(r"^(\s*pto\.t\w+ ins\()(%\w+)(.*)")


def _constants(lines: Lines) -> dict[str, tuple[int, str]]:
    """Value and type of the integers that a text names."""
    return {n: (int(v, 0), t) for n, v, t in _CONST.findall("\n".join(lines))}


def _moved(lines: Lines, at: int) -> Iterator[Lines]:
    """A tile at another address: half of a tile, or a block, farther on or before."""
    found = _PLACE.search(lines[at])
    held = _constants(lines).get(found[2][1:]) if found else None
    if found is None or held is None:
        return
    value, type_ = held
    for number, by in enumerate((32, 512, 4096, -32, -512)):
        if value + by >= 0:
            name = f"%moved{number}"
            yield [
                f"{name} = arith.constant {value + by} : {type_}",
                _PLACE.sub(lambda m, n=name: m[1] + n, lines[at]),
            ]


def _shifted(lines: Lines, at: int) -> Iterator[Lines]:
    """A window one row or one column farther on, or before, or from the first on."""
    found = _WINDOW.search(lines[at])
    if found is None:
        return
    offsets = [o.strip() for o in found[2].split(",")]
    for number, offset in enumerate(offsets):
        other = [*offsets]
        other[number] = "%farther"
        for made in (f"arith.addi {offset}", f"arith.subi {offset}", f"arith.muli {offset}"):
            by = 0 if "muli" in made else 1
            yield [
                f"%farther1 = arith.constant {by} : index", f"%farther = {made}, %farther1 : index",
                _WINDOW.sub(lambda m, o=other: m[1] + ", ".join(o) + m[3], lines[at]),
            ]  # fmt: skip


def _named(lines: Lines, at: int) -> Iterator[Lines]:
    """A tile is written over in part by another one, then read by a second name of its place."""
    found = _INS.match(lines[at])
    before = "\n".join(lines[:at])
    made = found and re.search(
        rf"^\s*{found[2]} = pto\.alloc_tile addr = (%\w+) : (!pto\.tile_buf<vec, \w*x([fi]\d+)>)",
        before,
        re.M,
    )
    held = _constants(lines).get(made[1][1:]) if made else None
    if found is None or not made or held is None:
        return
    (value, place), type_, elem = held, made[2], made[3]
    number = "1.0" if elem.startswith("f") else "1"
    yield [
        f"%over_at = arith.constant {value + 32} : {place}",
        f"%over = pto.alloc_tile addr = %over_at : {type_}",
        f"%over_by = arith.constant {number} : {elem}",
        f"pto.texpands ins(%over_by : {elem}) outs(%over : {type_})",
        f"%second = pto.alloc_tile addr = {made[1]} : {type_}",
        f"{found[1]}%second{found[3]}",
    ]


def _named_pointer(lines: Lines, at: int) -> Iterator[Lines]:
    """The same with pointers: what a transfer takes out of UB."""
    found = _TAKES.match(lines[at])
    before = "\n".join(lines[:at])
    made = found and re.search(
        rf"^\s*{found[2]} = pto\.castptr (%\w+) : i64 -> (!pto\.ptr<\w+, ub>)", before, re.M
    )
    held = _constants(lines).get(made[1][1:]) if made else None
    if found is None or not made or held is None:
        return
    yield [
        f"%over_at = arith.constant {held[0] + 32} : i64", "%over_0 = arith.constant 0 : index",
        "%over = pto.castptr %over_at : i64 -> !pto.ptr<f32, ub>",
        "%over_by = arith.constant 1.0 : f32", "pto.barrier <PIPE_ALL>", "pto.vecscope {",
        '%over_m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>',
        "%over_x = pto.vbr %over_by : f32 -> !pto.vreg<64xf32>",
        "pto.vsts %over_x, %over[%over_0], %over_m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, "
        "!pto.mask<b32>",
        "}", "pto.barrier <PIPE_ALL>", f"%second = pto.castptr {made[1]} : i64 -> {made[2]}",
        f"{found[1]}%second{found[3]}",
    ]  # fmt: skip


def _strided(lines: Lines, at: int) -> Iterator[Lines]:
    """Another number of the block than the launch gave: half of it, or twice."""
    found = _BLOCK.match(lines[at])
    if found is None:
        return
    name = found[1]
    type_ = "i64" if not re.search(r": index\s*$", lines[at]) else "index"
    for word in ("divui", "muli"):
        renamed = lines[at].replace(name, f"{name}_was", 1)
        yield [
            renamed, f"%stride_by = arith.constant 2 : {type_}",
            f"{name} = arith.{word} {name}_was, %stride_by : {type_}",
        ]  # fmt: skip


def _extended(lines: Lines, at: int) -> Iterator[Lines]:
    """A valid region of one row less."""
    found = _VALID.search(lines[at])
    if found is not None:
        yield [
            "%less1 = arith.constant 1 : index",
            f"%less = arith.subi {found[2]}, %less1 : index",
            _VALID.sub(lambda m: f"{m[1]}%less{m[3]}{m[4]}", lines[at]),
        ]


def _unfilled(lines: Lines, at: int) -> Iterator[Lines]:
    """A load or a fill that is not there."""
    if _FILLS.match(lines[at]):
        yield []


# -- on pointers and vector registers --------------------------------------------------------------


def _repointed(lines: Lines, at: int) -> Iterator[Lines]:
    """A pointer to another address."""
    found = _CAST.match(lines[at])
    held = _constants(lines).get(found[2][1:]) if found else None
    if found is None or held is None:
        return
    value, type_ = held
    for number, by in enumerate((32, 512, 4096, -32, -512)):
        if value + by >= 0:
            name = f"%moved{number}"
            yield [f"{name} = arith.constant {value + by} : {type_}", f"{found[1]}{name}{found[3]}"]


def _laned(lines: Lines, at: int) -> Iterator[Lines]:
    """A load or a store of a register a block, or a register, farther on or before."""
    found = _LANES.match(lines[at])
    for word in ("addi", "subi") if found is not None else ():
        for by in (8, 64):
            yield [
                f"%far_by = arith.constant {by} : index",
                f"%far = arith.{word} {found[2]}, %far_by : index",  # type: ignore[index]
                f"{found[1]}%far{found[3]}",  # type: ignore[index]
            ]


def _cut(lines: Lines, at: int) -> Iterator[Lines]:
    """A transfer with shorter bursts, with fewer or more of them, or farther apart."""
    found = _BURST.match(lines[at])
    if found is None:
        return
    size, count, source, target = (int(found[n]) for n in (2, 4, 5, 6))
    for made in (
        (size // 2, count, source, target), (size, count + 1, source, target),
        (size, max(count // 2, 1), source, target), (size, count, source + 32, target),
        (size, count, source, target + 32),
    ):  # fmt: skip
        yield [f"{found[1]}{made[0]}{found[3]}{', '.join(map(str, made[1:]))}{found[7]}"]


def _masked(lines: Lines, at: int) -> Iterator[Lines]:
    """A mask with fewer lanes."""
    found = _MASK.match(lines[at])
    if found is not None:
        yield from ([f"{found[1]}{pattern}{found[2]}"] for pattern in ("PAT_VL32", "PAT_VL8"))
    found = _LEFT.match(lines[at])
    if found is not None:
        yield [
            f"%less1 = arith.constant 1 : {found[4]}",
            f"%less = arith.subi {found[2]}, %less1 : {found[4]}", f"{found[1]}%less{found[3]}",
        ]  # fmt: skip


KINDS: dict[str, Maker] = {
    "address": _moved,
    "offset": _shifted,
    "second name": lambda lines, at: chain(_named(lines, at), _named_pointer(lines, at)),
    "block stride": _strided,
    "valid region": _extended,
    "missing fill": _unfilled,
    "pointer": _repointed,
    "lanes": _laned,
    "burst": _cut,
    "mask": _masked,
}


def _retyped(text: str) -> Iterator[Change]:
    """All tiles of a type with twice the rows, or with one row or column less of them valid."""
    seen = set()
    for at, line in enumerate(text.split("\n"), 1):
        found = _TILE.match(line)
        type_ = line[found.start(2) :].strip() if found is not None else ""
        if found is None or "valid" in line or type_ in seen or not type_.endswith(">"):
            continue
        seen.add(type_)
        rows, cols = int(found[3]), int(found[4])
        twice = type_.replace(f"{rows}x{cols}", f"{2 * rows}x{cols}", 1)
        yield Change("tile size", at, text.replace(type_, twice))
        for less in ((rows - 1, cols), (rows, cols - 1)):
            if min(less) > 0:
                other = f"{type_[:-1]}, valid={less[0]}x{less[1]}>"
                yield Change("valid region", at, text.replace(type_, other))


MUST_SHOW = frozenset(("address", "second name", "tile size", "valid region", "burst"))
"""Kinds of which every mutant that computes something else has a finding, or elements without
values. Of the other kinds a mutant may be a program that is right for another purpose: it reads
other bytes that have values, and only what is expected of it tells. (Two pointers to one address
are names of one buffer, which has no size that anybody knows.)"""


def changes(text: str) -> Iterator[Change]:
    """Yield all changes of a text."""
    yield from _retyped(text)
    lines = text.split("\n")
    for at in range(len(lines)):
        for kind, make in KINDS.items():
            for made in make(lines, at):
                yield Change(kind, at + 1, "\n".join([*lines[:at], *made, *lines[at + 1 :]]))


# -- verdicts --------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """What a run shows: codes of its findings by severity above notes, outputs with memory filled
    in two ways, and which of their elements have values."""

    codes: frozenset[str]
    outputs: tuple[dict[str, np.ndarray], ...]
    defined: dict[str, np.ndarray]


def seen(text: str, args: dict[str, Any], **options: Any) -> Seen | str:
    """Run a text; a word where it is refused or stops."""
    load = {k: options[k] for k in ("target", "level", "compat") if k in options}
    run = {k: v for k, v in options.items() if k not in load}
    try:
        loaded = ptosim.load(text, **load)
        results = [
            loaded.run(args, timing=False, uninit=uninit, sanitize=chosen, **run)
            for uninit, chosen in (("poison", "all"), ("zero", "none"))
        ]
    except ptosim.Trap:
        return "stopped"
    except (ptosim.ProgramError, ptosim.UsageError):
        return "refused"
    codes = frozenset(d.code for d in results[0].findings if d.severity.word != "note")
    return Seen(codes, tuple(r.outputs for r in results), dict(results[0].definedness))


def verdict(before: Seen, after: Seen | str) -> str:
    """`refused`, `stopped`, `found`; `harmless`; `incomplete` where the only sign is which elements
    have values; `other` for a program that computes something else of bytes that have values."""
    if isinstance(after, str):
        return after
    if after.codes - before.codes:
        return "found"
    same = all(
        np.array_equal(one[name].view(np.uint8), two[name].view(np.uint8))
        for one, two in zip(before.outputs, after.outputs, strict=True)
        for name in one
    )
    if same:
        return "harmless"
    if any((before.defined[n] & ~after.defined[n]).any() for n in before.defined):
        return "incomplete"
    return "other"


# -- programs --------------------------------------------------------------------------------------

SMALL = (
    "basics/rmsnorm", "basics/softmax", "basics/vadd", "cube/gemm_f16", "model/rmsnorm_bf16",
    "model/rope", "new/vector", "quant/int8_asym",
)  # fmt: skip
"""Shipped programs that take little time, on tiles and with their own or no synchronisation."""


ON_POINTERS = (
    "micro/softmax", "micro/row_sums", "micro/topk", "micro/mxfp4_quantise", "micro/sigmoid_a2a3",
    "micro/simt_histogram", "micro/mxfp8_matmul", "micro/fractal_matmul", "vmi/softmax",
    "vmi/histogram", "vmi/mxfp8_dequantise", "vmi/mxfp8_quantise", "vmi/swiglu_fp8", "vmi/topk",
)  # fmt: skip
"""Shipped programs on pointers, vector registers and logical vectors, as they are."""
EVERY = [*((name, placed) for name in SMALL for placed in (False, True)),
         *((name, False) for name in ON_POINTERS)]  # fmt: skip


class Case(NamedTuple):
    """A program with its arguments and the options of its runs."""

    text: str
    args: dict[str, Any]
    options: dict[str, Any]


def case(name: str, *, placed: bool) -> Case:
    """Return a shipped program, `placed`: with the planner's addresses and flags in its text, which
    makes it one of level 3."""
    path = source_path(f"@{name}")
    beside = sidecar_of(path)
    assert beside is not None
    args = {n: array_files.parse_spec(s, beside.folder) for n, s in beside.args.items()}
    names = ("level", "compat", "block_num", "entry")
    options = {n: beside.options[n] for n in names if n in beside.options}
    options["target"] = beside.targets[0]
    text = path.read_text(encoding="utf-8")
    if placed:
        asked = FrontOptions(target=options["target"], level=options.pop("level", None))
        source = Source(name, text)
        flags = not SYNC.search(text)
        text = rewritten(source, asked, plan="addr =" not in text, insert_sync=flags)[0]
    return Case(text, args, options)


def verdicts(name: str, *, placed: bool, per_kind: int) -> Iterator[tuple[Change, str]]:
    """Yield changes of a shipped program, so many of each kind, with what is said of them: a word of
    `mistaken` or of `verdict`, or `part` where a tile has come to lie inside of another one, as if
    it were meant to be a part of it."""
    text, args, options = case(name, placed=placed)
    before = seen(text, args, **options)
    assert isinstance(before, Seen), (name, before)
    assert before.codes == frozenset(), (name, before.codes)
    by_kind: dict[str, list[Change]] = {}
    for change in changes(text):
        by_kind.setdefault(change.kind, []).append(change)
    for kind, made in by_kind.items():
        for change in Random(f"{name} {kind}").sample(made, min(per_kind, len(made))):
            after = seen(change.text, args, **options)
            word = mistaken(change.text, after) or verdict(before, after)
            is_part = word == "other" and judged(change.text) == "part"
            yield change, "part" if is_part else word


MISTAKES = ("silent", "false alarm")


def mistaken(text: str, after: Seen | str) -> str:
    """`silent` where by the account of the tests an operation reads bytes without a value or of
    another tile, and no finding says so; `false alarm` where none does, and one says so."""
    expected = judged(text) if isinstance(after, Seen) else "unsure"
    if isinstance(after, str) or expected not in ("wrong", "clean"):
        return ""
    is_told = any(code.startswith("PTO71") for code in after.codes)
    if is_told == (expected == "wrong"):
        return ""
    return MISTAKES[is_told]
