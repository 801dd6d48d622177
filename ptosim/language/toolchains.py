"""What holds for a program beside its text: level, synchronisation, and which functions the
assembler synchronises.

Who made a text decides what nobody gave: the options of its `// RUN: ptoas` line, then the marks of
the toolchain, else the text itself. Insertion of flags is decided for each function (assembler of
2026-08: a function with a static flag or event is left alone, barriers, computed flags, buffer
tokens and signals between cores do not count; code of micro instructions alone gets nothing)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.attributes import attribute_of
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule, Settings
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.isa.dates import holds
from ptosim.ground.isa.targets import target_of_word
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source, Span

TOOLCHAINS = ("pypto", "ptodsl", "pto-dsl", "none")
"""The words of `--as`."""
CHOICES = {
    "level": (1, 2, 3),
    "sync": ("auto", "manual"),
    "planner": ("legacy", "modern"),
    "maker": TOOLCHAINS,
}
"""What can be chosen beside target and date, and the words for it."""
_RUN = re.compile(r"^\s*//\s*RUN:(?P<before>.*?)\bptoas\b(?P<options>[^|;&]*)", re.MULTILINE)
_PYPTO = re.compile(r"%__pypto_|__ssa_v\d+|%\w+_inline\d+\w*|%c\d+_index\b")
_INSERTS = (
    "--enable-insert-sync",
    "--enable-graph-sync-solver",
    "--enable-bufid_sync",
    "--enable-inject-barrier-all-sync",
)
_EVERYWHERE = _INSERTS[2:]
"""Modes that look at no flag of the text."""
_TARGET_KEYS = {"pto.target_arch", "pto.device-spec"}


class Chosen(NamedTuple):
    """What decides level and synchronisation where nobody gave them, with the reason."""

    level: int | None = None
    sync: str | None = None
    why: str = ""
    everywhere: bool = False  # into functions with flags of their own, too


def settings_of(
    resolved: ResolvedModule, given: Mapping[str, Any], *, names_target: bool, dump: bool
) -> Settings:
    """Return what the caller gave (target, date or one of CHOICES, by name), and what the text
    decides where nobody gave it. `names_target`: the text or the caller says what it is for;
    `dump`: the text went through passes of the assembler."""
    maker, chosen = _maker(resolved, given.get("maker"))
    reasons: dict[str, str] = {}
    level = given.get("level") or _level(resolved, chosen, reasons)
    sync = given.get("sync", chosen.sync)
    if "sync" not in given and chosen.sync is not None:
        reasons["sync"] = chosen.why
    everywhere = chosen.everywhere and "sync" not in given
    ordered = _ordered(resolved, sync or "auto", "sync" in given, everywhere, reasons)
    named = next((op for op in resolved.ops if _TARGET_KEYS & op.attrs.keys()), None)
    if named is not None and "target" not in given:
        reasons["target"] = _place(resolved, named)
    elif "target" not in given and arch_of_run(resolved.module.source.text, given.get("maker")):
        reasons["target"] = _OF_RUN
    return Settings(
        level or 2,
        _word(resolved, sync, ordered, "sync" in given),
        given.get("planner", "legacy"),
        frozenset(given),
        reasons,
        names_target,
        dump,
        any(map(is_on_tiles, resolved.ops)),
        maker,
        ordered,
    )


def _level(resolved: ResolvedModule, chosen: Chosen, reasons: dict[str, str]) -> int:
    if chosen.level is not None:
        reasons["level"] = chosen.why
        return chosen.level
    first = next(filter(has_address, resolved.ops), None)
    if first is None:
        return 2
    reasons["level"] = _place(resolved, first)
    return 3


def _maker(resolved: ResolvedModule, asked: str | None) -> tuple[str, Chosen]:
    """Who made the text, and what that decides."""
    text = resolved.module.source.text
    if asked == "none":
        return "none", Chosen()
    if asked is None and (line := _run_line(text)) is not None:
        return "none", line
    mode = _mode(resolved)
    if asked == "ptodsl" or (asked is None and mode in _MODES):
        return "ptodsl", _MODES.get(mode, Chosen(2, "auto", "ptodsl text"))
    if asked == "pypto" or (asked is None and _is_of_pypto(text)):
        return "pypto", Chosen(None, "auto", "pypto text")
    if asked == "pto-dsl":
        return "pto-dsl", Chosen(2, "auto", "pto-dsl text")
    return "none", Chosen()


_MODES: Mapping[str | None, Chosen] = {
    "explicit": Chosen(3, "manual", 'pto.mode = "explicit"'),
    "auto": Chosen(2, "auto", 'pto.mode = "auto"'),
}


@lru_cache(maxsize=1)
def _is_of_pypto(text: str) -> bool:
    """Is this text of pypto? Each entry of a file in C++ asks it of the whole file."""
    return _PYPTO.search(text) is not None


def _mode(resolved: ResolvedModule) -> str | None:
    for unit in resolved.unit.walk():
        found = attribute_of(unit.op, "pto.mode") if unit.op is not None else None
        if found is not None:
            return str(found)
    return None


def _run_line(text: str) -> Chosen | None:
    """What the first line that runs the assembler on the text gives; one that must fail says
    nothing."""
    words = _run_words(text)
    if words is None:
        return None
    given = re.search(r"--pto-level[= ]level([123])", " ".join(words))
    modes = {w.split("=")[0] for w in words} & set(_INSERTS)
    everywhere = bool(modes) and modes <= set(_EVERYWHERE)
    sync = "auto" if modes else "manual"
    return Chosen(int(given[1]) if given else 2, sync, _OF_RUN, everywhere)


_OF_RUN = "the `// RUN:` line"


def _run_words(text: str) -> list[str] | None:
    found = _RUN.search(text) if "RUN:" in text else None
    if found is None or re.search(r"\bnot\b|!", found["before"]):
        return None
    try:
        return shlex.split(found["options"])
    except ValueError:
        return None


def arch_of_run(text: str, asked: str | None) -> str | None:
    """The target that the first line that runs the assembler on a text names, unless the text was
    said to be `asked` another's; None if it names none, or one that nobody knows."""
    words = _run_words(text) if asked is None else None
    found = re.search(r"--pto-arch[= ](\w+)", " ".join(words or ()))
    target = target_of_word(found[1]) if found is not None else None
    return target.architecture if target is not None else None


_GONE = "--enable-graph-sync-solver"


def gone_options(source: Source, date: str) -> Iterator[Diagnostic]:
    """Report an option of a `// RUN:` line that the assembler of a date is reported to lack."""
    found = _RUN.search(source.text) if "RUN:" in source.text else None
    if found is None or _GONE not in found["options"] or not holds({"since": "2026-09"}, date):
        return
    at = found.start("options") + found["options"].index(_GONE)
    yield finding(
        "PTO3019",
        f"`{_GONE}` is reported to be gone in assembler 0.61; it is read as automatic "
        "synchronisation",
        Span(source, at, at + len(_GONE)),
        help="write `--enable-insert-sync`",
    )


# -- which functions the assembler synchronises ----------------------------------------------------


def _ordered(
    resolved: ResolvedModule,
    sync: str,
    is_given: bool,
    everywhere: bool,
    reasons: dict[str, str],
) -> frozenset[str]:
    """The functions whose pipes the assembler orders, and why not the others: those with flags of
    their own, unless it is to insert `everywhere`, and those of micro instructions alone."""
    if sync == "manual":
        return frozenset()
    bodies = [f for f in resolved.functions.values() if f.has_body]
    # C++ is synchronised by whoever wrote it, with barriers too.
    trait = "sync" if resolved.module.source.is_cpp else "" if everywhere else "by_hand"
    found = {f.name: _by_hand(f, trait, is_given) for f in bodies}
    told = [_place(resolved, op) for op in found.values() if op is not None]
    if told:
        before = f"{reasons['sync']}; " if "sync" in reasons else ""
        reasons["sync"] = before + told[0]
    return frozenset(function for function, op in found.items() if op is None)


def _by_hand(function: Function, trait: str, is_given: bool) -> Operation | None:
    """The operation for which nothing is inserted in a function; None if flags are."""
    if function.in_region or _OF_CALLERS & function.op.attrs.keys():
        return None
    micro, on_tiles = None, False
    for op in function.ops:
        if op.has(trait) or (op.has("places") and not is_given and not function.implicit):
            return op
        on_tiles = on_tiles or is_on_tiles(op)
        if micro is None and is_micro(op):
            micro = op
    return micro if not on_tiles else None


def beside_insertion(resolved: ResolvedModule) -> dict[str, Operation]:
    """Return the first barrier, fence, signal or other order that the text of a function has beside
    what is inserted, by the function's name; none where the caller or marks of the text say who
    synchronises."""
    settings, source = resolved.settings, resolved.module.source
    if "sync" in settings.given or settings.maker != "none" or _run_words(source.text) is not None:
        return {}
    bodies = (f for f in resolved.functions.values() if f.name in settings.ordered)
    firsts = ((f.name, next((op for op in f.ops if op.traits & _ORDERS), None)) for f in bodies)
    return {name: op for name, op in firsts if op is not None}


_ORDERS = frozenset(("sync", "cross_core", "orders_pipes"))
_OF_CALLERS = {"pto.tileop.helper", "pto.simt_entry"}
"""Functions that are as one operation of their callers."""


def is_micro(op: Operation) -> bool:
    """True for an instruction that a pipe executes."""
    return op.definition is not None and op.definition.family in _MICRO


_MICRO = (
    "micro_cube", "micro_dma", "micro_memory", "micro_ub", "micro_vector", "micro_convert",
    "micro_permute", "micro_reduce", "micro_sort", "micro_mask", "vmi_memory", "vmi_vector",
)  # fmt: skip
"""Families of instructions that pipes execute."""


def is_on_tiles(op: Operation) -> bool:
    """True for an operation on what is in tiles, not on handles or addresses of them."""
    definition = op.definition
    if definition is None or op.variant is None or op.has("handle") or op.has("tile_address"):
        return False
    on_tiles = any("tile" in d.kinds for d in op.variant.operands)
    return on_tiles and not definition.family.startswith(("micro", "vmi"))


def has_address(op: Operation) -> bool:
    """True if it says where a tile is: then the program is for level 3."""
    if op.has("places"):
        return True
    is_given = _has_keyword(op, "addr") or op.bound.get("addr") is not None  # as quoted: by place
    return op.has("makes_storage") and is_given


def _has_keyword(op: Operation, key: str) -> bool:
    return any(getattr(i, "kind", "") == "keyword" and i.parts[0].value == key for i in op.items)


def _word(
    resolved: ResolvedModule, sync: str | None, ordered: frozenset[str], is_given: bool
) -> str:
    """The word for the whole program: `manual` if no function is left to the assembler."""
    if is_given or not any(f.has_body for f in resolved.functions.values()):
        return sync or "auto"
    if sync == "manual" or not ordered:
        return "manual"
    return "auto"


def _place(resolved: ResolvedModule, op: Operation) -> str:
    return f"{op.name} in line {resolved.module.source.line_column(op.start)[0]}"


# What whoever launches a kernel promises of its arguments: `isa/arguments.toml`. Where something
# runs is known without the caller where an argument tells it, as it is of `pto.get_block_idx`.

INDEX, COUNT, EXTENT, FREE = "index", "count", "extent", "free"
"""Where something runs; how many there are; a size of a tensor; whatever the caller likes."""
BLOCK, BLOCKS, LANE = "block", "blocks", "lane"
"""What of a core an argument tells."""


class Promise(NamedTuple):
    """What holds for an argument: its kind, the least and the largest value (None: that of its
    type), the argument that it is less than, and what of the core that executes it it tells. A
    launch may have more blocks than there are cores: an index is no number of a core. A pointer is
    `aligned` to its element; other arguments `may_share` its buffer, or each block has a part."""

    kind: str
    low: int | None = None
    high: int | None = None
    below: str = ""
    tells: str = ""
    aligned: str = ""
    may_share: bool = False
    per_block: bool = False
    certainty: str = "sources"


class _Row(NamedTuple):
    name: str
    of: str
    maker: str
    promise: Promise


@lru_cache(maxsize=1)
def _promises() -> tuple[_Row, ...]:
    rows = read_toml("arguments.toml")["argument"]
    fields = Promise._fields
    return tuple(
        _Row(
            row.get("name", ""), row.get("of", ""), row.get("maker", ""),
            Promise(**{key: value for key, value in row.items() if key in fields}),
        )
        for row in rows
    )  # fmt: skip


def _promised(name: str, of: str = "", maker: str = "") -> Promise | None:
    """The promise of an argument by its name, else by what it is."""
    for row in _promises():
        fits = row.name == name if row.name else bool(of) and row.of == of
        if fits and row.maker in ("", maker):
            return row.promise
    return None


def most_blocks() -> int:
    """Return the most blocks of a launch that anybody promises."""
    return max(row.promise.high or 0 for row in _promises() if row.promise.tells == BLOCKS)


def promises_of(function: Function, maker: str = "none") -> dict[str, Promise]:
    """Return what holds for each whole number and each pointer among the arguments of a function,
    by name."""
    sizes, slots = set(_sizes(function)), set(_workspaces(function))
    found = {}
    for value in function.args:
        if isinstance(value.type, ScalarType):
            if value.type.dtype.is_float:
                continue
            is_size = value in sizes and value.type.dtype.name == "index"
            of = "extent" if is_size else "number"
        else:
            of = "workspace" if value in slots else "pointer"
        promise = _promised(value.name, of, maker) or _promised(value.name, "pointer")
        if promise is not None:
            found[value.name] = promise
    return found


def block_has_own_slots(maker: str) -> bool:
    """True if the pointer to a FIFO's slots is moved for each block by who launches a text."""
    promise = _promised("", "workspace", maker)
    return promise is not None and promise.per_block


def told_by(value: Value) -> str:
    """Return what of a core an argument tells; '' for one that the caller gives."""
    if not value.is_argument or not isinstance(value.type, ScalarType):
        return ""
    promise = _promised(value.name)
    return promise.tells if promise is not None else ""


def tells_core(function: Function) -> bool:
    """True if a function knows which block executes it, or how many there are: by an operation or
    by an argument."""
    return any(map(told_by, function.args)) or any(op.has("tells_core") for op in function.ops)


def _workspaces(function: Function) -> list[Value]:
    """The pointers to slots of FIFOs."""
    opened = [op.bound.get("gm_slot_buffer") for op in function.ops]
    return [o.value for o in opened if isinstance(o, Operand) and o.value is not None]


def _sizes(function: Function) -> list[Value]:
    """The numbers that are an extent of a view of global memory as they are."""
    views = [op for op in function.ops if op.has("view")]
    shapes = [o for op in views for o in op.bound.get("shape") or ()]
    return [o.value for o in shapes if isinstance(o, Operand) and o.value is not None]
