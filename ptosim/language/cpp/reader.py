"""From a C++ file to the module that it is: its entries, and the one that is asked for, followed
into operations that keep the places of the file."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Module, Node, Operation, Region, Tok, walk
from ptosim.ground.ir.program import COMPUTED
from ptosim.ground.processes import uncollected
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source, Span
from ptosim.language.build import Builder
from ptosim.language.cpp.arithmetic import literal
from ptosim.language.cpp.copies import dropped, without_copies
from ptosim.language.cpp.declared import (
    Collector,
    Instantiation,
    field_of,
    named,
    parameters,
)
from ptosim.language.cpp.entries import (
    FFTS,
    argument_of,
    chosen,
    entries_of,
    found_entry,
    host_code,
    launches,
)
from ptosim.language.cpp.forms import row_of
from ptosim.language.cpp.instructions import Instructions, Launched
from ptosim.language.cpp.kinds import BOOL, Cell, Num, StructType
from ptosim.language.cpp.names import MASK
from ptosim.language.cpp.parentheses import without_casts
from ptosim.language.cpp.preprocess import Expanded, asks_core, expand
from ptosim.language.cpp.state import REFUSED, CppError, Scope
from ptosim.language.cpp.sync import PEER
from ptosim.language.cpp.tree import parsed
from ptosim.language.syntax.balance import MAX_DEPTH


@dataclass(slots=True)
class CppModule:
    """What was read: the module, the name of its function, how many blocks a wrapper launches."""

    module: Module
    entry: str
    blocks: int | str | None
    warnings: Sequence[tuple[int, str]] = ()
    orders: bool = False
    """Does it order its pipes itself?"""
    defaults: Mapping[str, int | float | bool] = field(default_factory=dict)
    """Numbers that arguments have where none are given."""


def read(
    source: Source,
    arch: str,
    entry: str | None,
    sink: Sink,
    defines: Mapping[str, str] | None = None,
    parameters: Sequence[str] = (),
) -> CppModule | None:
    """Read a file for a target; `parameters` are other names for those of the kernel. What is wrong
    goes to the sink, then there is no module. Raises UsageError if the entry must be named or does
    not exist, or the extra is not installed."""
    problem: list[tuple[CppError, Any]] = []
    source.reached.clear()  # by the calls of an entry that was read before
    try:
        with _deep():
            made = _read(source, arch, entry, defines, problem, parameters)
    except CppError as fault:
        _report(fault, source, None, sink)
        return None
    except RecursionError:
        _report(CppError(0, "the file is nested too deeply"), source, None, sink)
        return None
    if problem:
        _report(problem[0][0], source, problem[0][1], sink)
        return None
    return made


@contextmanager
def _deep() -> Iterator[None]:
    """Let calls be as deep as the reader needs, and keep the collector off what it makes."""
    deepest = sys.getrecursionlimit()
    sys.setrecursionlimit(max(deepest, _FRAMES))
    try:
        with uncollected():
            yield
    finally:
        sys.setrecursionlimit(deepest)


def entries(source: Source, arch: str) -> list[str]:
    """Return the entries that a file offers; none where it cannot be read. Raises UsageError if the
    extra is not installed."""
    core = "vector" if asks_core(source) else None
    try:
        return entries_of(_File(source, arch, core))
    except (CppError, RecursionError):
        return []


def unexecuted(
    source: Source, arch: str, defines: Mapping[str, str] | None = None
) -> list[tuple[str, int]]:
    """Return code for the host with its lines; none where the file cannot be read."""
    core = "vector" if asks_core(source) else None
    try:
        found = host_code(_File(source, arch, core, defines))
    except (CppError, RecursionError):
        return []
    return [(word, source.line_column(at)[0]) for word, at in found]


def launched_blocks(
    source: Source, arch: str, entry: str | None, defines: Mapping[str, str] | None,
    scalars: Mapping[str, Any],
) -> int | None:  # fmt: skip
    """Return how many blocks a wrapper launches with these arguments, None where they do not say
    it."""
    core = "vector" if asks_core(source) else None
    try:
        file = _File(source, arch, core, defines)
        follower = file.follower(0)
        follower.scalars = scalars
        with _deep():
            _followed(follower, file, chosen(file, entry))
    except Launched as found:
        return found.blocks
    except (CppError, RecursionError, *_UNFORESEEN):
        return None
    return None


def several(source: Source, arch: str, defines: Mapping[str, str] | None = None) -> list[str]:
    """Return the entries of a file that has more than one, none of which is meant before the
    others; an empty list for every other file. Raises UsageError if the extra is not installed."""
    core = "vector" if asks_core(source) else None
    try:
        file = _File(source, arch, core, defines)
    except (CppError, RecursionError):
        return []
    found = entries_of(file)
    try:
        if len(found) > 1:
            chosen(file, None)
    except UsageError:
        return found  # none is chosen of several
    return []


def _report(fault: CppError, source: Source, follower: Any, sink: Sink) -> None:
    """Say what is wrong where it is written, and by which calls it is reached."""
    at = fault.at if isinstance(fault.at, int) else fault.at.start_byte
    if not isinstance(fault.at, int) and follower is not None:
        at = follower.place(at)
    notes = [] if follower is None else _told_calls(follower, source, fault.calls)
    end = at + _word_at(source.text, at)
    sink.report(fault.code, fault.message, Span(source, at, end), help=fault.help, notes=notes[:8])


def _told_calls(follower: Any, source: Source, calls: Sequence[tuple[str, int]]) -> list[str]:
    """Say calls in words, the innermost first; that of the entry where its template arguments say
    something."""
    told = [(n, at) for i, (n, at) in enumerate(calls) if i or n.endswith(">")]
    lines = [(n, source.line_column(follower.place(at))[0]) for n, at in told]
    return [f"in {name} at line {line}" for name, line in reversed(lines)]


def _word_at(whole: str, at: int) -> int:
    found = re.compile(r"\w*").match(whole, at)
    return max(len(found.group()), 1) if found is not None else 1


_FRAMES = 60_000
"""Frames of Python that calls in calls may take: they are limited by `DEEPEST_CALLS` before."""


_CALL = re.compile(r"(\w+)\s*\(")
_METHOD = re.compile(r"((?:\.|->)\s*\w+\s*<\s*)(\d[\w']*)(?=\s*>\s*\()")


def _masked(found: re.Match[str]) -> str:
    """`a.f<3>(b)`, which the grammar takes for `(a.f < 3) > (b)`: with a name in the place of the
    number it is a call. `Follower.unmasked` brings the number back."""
    return found[1] + MASK * len(found[2])


@dataclass(slots=True)
class _Parsed:
    """A text without directives, its tree, the parts of that which every entry goes through, and
    the instantiations, once they are known."""

    expanded: Expanded
    tree: Any
    nodes: list[Any]
    instantiations: list[Instantiation] | None = None


_last: list[tuple[Source, Any, _Parsed | CppError]] = []
"""The texts that were parsed last, one for each kind of core, or why they cannot be: entries of a
file share them."""


def _parsed(
    source: Source, arch: str, core: str | None, defines: Mapping[str, str] | None
) -> _Parsed:
    """Return a text without directives and its tree. The same source, as an object, is the same
    text with the same files beside it."""
    key = arch, core, dict(defines or {})
    made = next((m for of, kept, m in _last if of is source and kept == key), None)
    if made is None:
        try:
            with uncollected():
                expanded = expand(source, arch, core, defines)
                tree = parsed(without_casts(_METHOD.sub(_masked, expanded.text)))
                made = _Parsed(expanded, tree, named(tree))
        except CppError as problem:
            made = problem.with_traceback(None)  # which has all words that were expanded
        _last[:] = [*(one for one in _last[-1:] if one[0] is source), (source, key, made)]
    if isinstance(made, CppError):
        raise made
    return made


class _File:
    """A file as it is for one kind of core."""

    is_auto = False

    def __init__(
        self,
        source: Source,
        arch: str,
        core: str | None,
        defines: Mapping[str, str] | None = None,
    ) -> None:
        known = _parsed(source, arch, core, defines)
        self.expanded, self.tree = known.expanded, known.tree
        self.arch, self.core, self.scope = arch, core, Scope()
        self.collector = Collector(self.expanded.kernels, known.instantiations)
        self.collector.text = self.expanded.text
        self.collector.collect(known.nodes, self.scope)
        if known.instantiations is None:
            self._refuse_outside()
            known.nodes = [n for n in known.nodes if n.type != "template_instantiation"]
            known.instantiations = self.collector.instantiations

    def _refuse_outside(self) -> None:
        """An instruction is in no function: other words may be macros of headers for the host."""
        for node in self.tree.children:
            found = _CALL.match(node.string) if node.type == "expression_statement" else None
            word = found[1] if found is not None else ""
            if row_of(word) is not None or word in ("set_flag", "wait_flag", "pipe_barrier"):
                why = f"`{word}` is outside of every function: a `}}` before it is too many"
                raise CppError(self.expanded.place(node.start_byte), why)

    def follower(self, count: int) -> Follower:
        """Return what follows a kernel of it."""
        made = Follower(self.expanded.place, self.arch)
        made.core, made.is_auto = self.core, self.is_auto
        made.count = count
        made.everything = made.scope = self.scope
        made.file = self
        made.pipe_ids, made.unrolling, made.carried_before, made.rounds = {}, {}, {}, []
        made.argument_values, made.values_of, made.places = {}, {}, {}
        made.defaults, made.scalars, made.small, made.long = {}, None, set(), set()
        made.tile_copies = []
        made.has_launched = made.cell(Num(BOOL, False), BOOL)
        made.prepare()
        return made


class Follower(Instructions):
    """Follows one kernel."""

    file: Any = None
    argument_values: dict[str, str]
    defaults: dict[str, int | float | bool]
    values_of: dict[tuple[int, bytes], Any]
    renamed: Sequence[str] = ()
    """Names that arguments get in the place of their own."""

    def as_value(self, node: Any) -> Any:
        """Return the expression of what was read as a type or as parameters: `f(n)` or `a[0]` among
        the arguments of a template. It is read after a sign, where no type may be."""
        start, words = node.start_byte, node.text
        if (start, words) not in self.values_of:
            found = parsed(f"0+{node.string};", start - 2, node.whole.told)
            while found.type != "binary_expression":
                inside = named(found)
                if not inside:
                    raise CppError(node, "this cannot be read as C++")
                found = inside[0]
            self.values_of[start, words] = field_of(found, "right")
        return self.values_of[start, words]

    def unmasked(self, node: Any) -> Num:
        """Return the number in whose place a name was read."""
        return literal(self.file.expanded.text[node.start_byte : node.end_byte].strip(), node)

    def parse_again(self, node: Any) -> list[Any]:
        """Return the expressions of a list in parentheses that was read as parameters."""
        parts = named(self.as_value(node))
        spread: list[Any] = []
        for part in parts:
            while part.type == "comma_expression":
                first, part = named(part)
                spread.append(first)
            spread.append(part)
        return spread


def _read(
    source: Source, arch: str, entry: str | None,
    defines: Mapping[str, str] | None, problem: list[Any], renamed: Sequence[str],
) -> CppModule | None:  # fmt: skip
    cores: list[str | None] = ["cube", "vector"] if asks_core(source) else [None]
    files = [_File(source, arch, core, defines) for core in cores]
    for file in files:
        file.is_auto = "__PTO_AUTO__" in (defines or {})
    name = chosen(files[0], entry)
    parts: list[_Followed] = []
    count = 0
    for file in files:
        follower = file.follower(count)
        follower.renamed = renamed
        try:
            parts.append(_followed(follower, file, name))
        except CppError as fault:
            problem.append((fault, follower))
            return None
        except _UNFORESEEN as fault:
            why = f"this C++ is not followed ({type(fault).__name__}: {fault})"
            problem.append((CppError(follower.make.at, why, _REPORT, REFUSED), follower))
            return None
        count = follower.count
    return _module(source, files[0], parts, name)


_UNFORESEEN = (AttributeError, TypeError, KeyError, IndexError, ValueError, OverflowError,
               StopIteration)  # fmt: skip
_REPORT = "write it more plainly; that it ends here is a fault of the reader: please report it"


@dataclass(slots=True)
class _Followed:
    """The operations of a kernel on one kind of core."""

    follower: Follower
    args: list[_Arg]
    ops: list[Operation]
    start: int


@dataclass(slots=True)
class _Arg:
    """An argument: its name, and its type in the program."""

    name: str
    type: str


def _followed(follower: Follower, file: _File, name: str) -> _Followed:
    overloads, targs, function, scope = found_entry(follower, file, name)
    del overloads, targs
    follower.host = not function.is_kernel and launches(function)
    follower.make.at = follower.place(function.node.start_byte)
    before, follower.scope = follower.scope, scope
    names: list[str] = []
    values = [argument_of(follower, p, names, function) for p in parameters(function.node)]
    follower.scope = before
    fixed = {v.name for v in values if isinstance(getattr(v.type, "to", None), StructType)}
    follower.arguments_open = {n for n in names if f"%{n}" not in fixed}
    follower.follow(function, scope, values, _instantiated(file, name) or function.node)
    args = [_Arg(n, follower.argument_types[n]) for n in names]
    every = [*follower.constants.values(), *follower.make.ops]
    ops = _alive(without_copies(every, follower.tile_copies))
    _refuse_depth(ops)
    return _Followed(
        follower, _without_ffts(args, ops), ops, follower.place(function.node.start_byte)
    )


_DEEPEST = MAX_DEPTH - 5
"""Branches in branches: a printed program has two more brackets around, and three in operations."""


def _refuse_depth(ops: Sequence[Operation]) -> None:
    waiting = [(op, 1) for op in ops]
    while waiting:
        op, depth = waiting.pop()
        if op.regions and depth > _DEEPEST:
            why = f"branches and loops are nested more than {_DEEPEST} deep"
            cure = "`switch` and `else if` nest once for each case: look the number up in an array"
            raise CppError(op.start, why, cure, REFUSED)
        inside = (o for region in op.regions for block in region.blocks for o in block.ops)
        waiting.extend((o, depth + 1) for o in inside)


def _instantiated(file: _File, name: str) -> Any:
    """Return where an entry is instantiated explicitly, None if it is not."""
    plain = "".join(name.split())
    return next((i.node for i in file.collector.instantiations if i.plain == plain), None)


def _without_ffts(args: list[_Arg], ops: Sequence[Operation]) -> list[_Arg]:
    """An argument that is only the base address of flags is none for a launch here."""
    used = {tok.value for op in walk(ops) for tok in _tokens(op)}
    return [a for a in args if f"%{a.name}" in used or FFTS not in a.name.lower()]


# -- the module ------------------------------------------------------------------------------------


def _module(source: Source, file: _File, parts: list[_Followed], name: str) -> CppModule:
    make = Builder(counts=False)
    busy = [p for p in parts if any(_works(op) for op in walk(p.ops))] or parts[:1]
    first = busy[0]
    make.at = first.start
    symbol = re.sub(r"\W", "_", name.partition("<")[0].strip().rpartition("::")[2])
    args = _all_args(busy)
    if len(busy) > 1 and any(p.follower.fifos for p in busy):
        return _pair(source, busy, args)
    with make.unit(), make.function(symbol, args):
        if len(busy) == 1:
            make.ops.extend(first.ops)
        for part in busy if len(busy) > 1 else ():
            kind = part.follower.core
            with make.scope(f"pto.section.{kind}"):
                make.ops.extend(part.ops)
        make.ops.append(_return(make))
    module = Module(source)
    module.ops = make.ops
    function = make.ops[0].regions[0].ops[0]
    kind = _kind(busy)
    if kind is not None:
        function.attrs = make.attrs({"pto.kernel_kind": f"#pto.kernel_kind<{kind}>"})
    function.end = len(source.text)
    _measure(module, source)
    _note_calls(source, busy)
    ordered = any(p.follower.orders for p in busy)
    defaults = first.follower.defaults
    return CppModule(module, symbol, _blocks(first), orders=ordered, defaults=defaults)


def _pair(source: Source, parts: Sequence[_Followed], args: list[Any]) -> CppModule:
    """Two functions that start together: a FIFO is between them."""
    make = Builder(counts=False)
    with make.unit():
        for part in parts:
            make.at = part.start
            kind = part.follower.core
            with make.function(f"{PEER}{kind}", args):
                make.ops.extend(part.ops)
                make.ops.append(_return(make))
            make.ops[-1].attrs = make.attrs({"pto.kernel_kind": f"#pto.kernel_kind<{kind}>"})
    module = Module(source)
    module.ops = make.ops
    _measure(module, source)
    _note_calls(source, parts)
    first = parts[0]
    defaults = first.follower.defaults
    return CppModule(module, f"{PEER}cube", _blocks(first), orders=True, defaults=defaults)


def _blocks(part: _Followed) -> int | str | None:
    """How many blocks the wrapper launches: a number, or the argument that says it."""
    launched = part.follower.launched
    if launched is None:
        return None
    return launched.const if launched.is_known else _argument_of(launched, part) or COMPUTED


def _argument_of(launched: Num, part: _Followed) -> str | None:
    return part.follower.argument_values.get(launched.name or "")


def _all_args(parts: Sequence[_Followed]) -> list[Any]:
    from ptosim.language.build import Typed

    found: dict[str, Any] = {}
    order = list(parts[0].follower.argument_types)
    for part in parts:
        found.update({a.name: Typed(f"%{a.name}", a.type) for a in part.args})
    return [found[n] for n in order if n in found]


def _return(make: Builder) -> Operation:
    apart = Builder(counts=False)
    apart.at = make.at
    return apart.typed("func.return")


def _works(op: Operation) -> bool:
    return op.name.startswith("pto.") and not op.name.endswith(("initialize_pipe", "alloc_tile"))


def _kind(parts: Sequence[_Followed]) -> str | None:
    if len(parts) > 1:
        return None
    part = parts[0].follower
    if part.core is not None and not (part.uses_cube and part.uses_vector):
        return part.core
    return "cube" if part.uses_cube and not part.uses_vector else None


def _note_calls(source: Source, parts: Sequence[_Followed]) -> None:
    """Findings say by which calls their place is reached."""
    for part in parts:
        for at, calls in part.follower.reached.items():
            told = _told_calls(part.follower, source, calls)
            if told:
                source.reached[at] = tuple(told[:8])


def _measure(module: Module, source: Source) -> None:
    """Places end after the word that is there."""
    for op in module.walk():
        op.name_end = op.start + _word_at(source.text, op.start)
        op.end = max(op.end, op.name_end)


def _alive(ops: list[Operation]) -> list[Operation]:
    """Leave out what has no effect and is used by nothing."""
    every = walk(ops)
    uses: dict[str, int] = {}
    for op in every:
        for tok in _tokens(op):
            uses[tok.value] = uses.get(tok.value, 0) + 1
    dead: set[int] = set()
    for op in reversed(every):
        if not _is_pure(op) or any(uses.get(f"%{n}") for n, _, _ in op.result_tokens):
            continue
        dead.add(id(op))
        for tok in _tokens(op):
            uses[tok.value] -= 1
    dropped(ops, dead)
    return ops


_PURE = ("arith.", "pto.make_tensor_view", "pto.partition_view", "pto.addptr", "pto.get_block",
         "pto.get_subblock", "pto.ptrtoint", "pto.inttoptr", "pto.get_validshape")  # fmt: skip


def _is_pure(op: Operation) -> bool:
    return op.name.startswith(_PURE) and bool(op.result_tokens)


def _tokens(op: Operation) -> list[Tok]:
    found: list[Tok] = []
    waiting: list[Any] = [*op.ins, *op.outs, *op.items, *op.clauses]
    for part in waiting:  # grows while it is followed
        if part.__class__ is Tok:
            if part.type == "SSA":
                found.append(part)
        elif isinstance(part, Node):
            waiting += part.parts
        elif isinstance(part, (list, tuple)):
            waiting += part
    return found


__all__ = ["Callable", "Cell", "CppModule", "Region", "read"]
