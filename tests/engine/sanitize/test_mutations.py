"""Every change of the synchronisation that lets two conflicting operations run unordered is found,
and no other is called a race.

The programs are the shipped ones (with the flags they have, or with inserted ones) and generated
ones. Whether a mutant is ordered says the graph of `tests/oracle/ordering.py`, which knows nothing of
vector clocks. By default a fixed sample of the mutants is tried; `PTOSIM_MUTANTS=all` tries all.
A vector region is one operation; its bytes are those of its log."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
import pytest

import ptosim
from ptosim.engine.core.bound import Kind
from ptosim.engine.watch.access import access_of
from ptosim.engine.watch.shadow import Shadow
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.launch import array_files
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.launch.description import Sidecar, sidecar_of
from ptosim.launch.dry_run import follow
from ptosim.launch.program import LoadedProgram
from ptosim.launch.sources import source_path
from ptosim.machine.core import CUBE_SPACES
from ptosim.machine.effects.account import REGISTER, SPECIAL_REGISTER_BYTES
from ptosim.machine.effects.strided import tile_bytes
from ptosim.tools.api import check_source
from tests.ops.semantics.test_sync import X, mixed, program
from tests.oracle.ordering import Access, Event, Ordering, conflicts
from tests.shell.programs import TILE
from tests.support.mutate import KINDS, mutants, sync_lines
from tests.support.shipped import on_one_device

pytestmark = pytest.mark.slow

PER_PROGRAM = 10
"""Mutants of each program and target that are tried by default."""
MAX_EVENTS = 1200
RACES = ("PTO5201", "PTO5202", "PTO5203", "PTO5204", "PTO5205")
HYGIENE = ("PTO5210", "PTO5211", "PTO5212")
COUNTS: Counter[str] = Counter()
NOT_TAKEN: dict[str, None] = {}
"""Synchronisation that no run came to; its mutants must be harmless, which says little."""


@dataclass
class Trace:
    """What one run executed, in the order of issue."""

    target: str
    events: list[Event] = field(default_factory=list)
    data: list[int] = field(default_factory=list)  # the events that are no synchronisation
    accesses: list[Access] = field(default_factory=list)
    watches: bool = True  # note the bytes, too
    is_plain: bool = True  # nothing that the graph does not know
    places: dict[tuple[int, int], int] = field(default_factory=dict)
    """The event of the nth work of a core: what cores do meets in another order in each mutant."""
    lines: set[int] = field(default_factory=set)  # of the synchronisation that was executed

    popping: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # pops under way
    open_regions: dict[int, list[int]] = field(default_factory=dict)  # that have not ended

    def on_start(self, engine) -> None:
        for head in [i for i in engine.program.insts if i.kind is Kind.REGION]:
            end = engine.program.insts[head.end]
            places = engine.program.regions[head.op]
            end.run = self._at_end(places, end.run)

    def _at_end(self, places, run):
        stores = {p.code for p in places.values() if p.is_store}

        def end(core) -> None:
            run(core)
            number = self.open_regions[core.index].pop(0)
            if self.watches:
                self.accesses[number] = logged(core, stores)

        return end

    def on_issue(self, core, inst, bound) -> None:
        if inst.kind is Kind.REGION:
            self.open_regions.setdefault(core.index, []).append(len(self.data))
            self.work(core, Access({}, {}, False) if self.watches else None)
            self.events.append(Event(inst.pipe, None, core.index))
        if bound is None or not hasattr(bound, "binding"):
            return
        binding = bound.binding
        sync = binding.sync
        self.is_plain = self.is_plain and (sync is None or sync[0] in KNOWN)
        if sync is not None:
            self.lines.add(binding.source.line_column(binding.op.start)[0])
        if sync is None or sync[0] == "push":  # a push reads its tile
            access = bytes_of(core, inst, binding) if self.watches else None
            self.work(core, access)
        if sync is not None and sync[0] == "pop" and inst.pipe != "S":  # writes what comes out
            self.popping.setdefault((core.index, inst.pc), []).append(len(self.data))
            self.work(core, Access({}, {}) if self.watches else None)
        event = Event(inst.pipe, sync, core.index, binding.signals, binding.awaits)
        self.events.append(event)

    def on_commit(self, core, inst, bound) -> None:
        waiting = self.popping.get((core.index, inst.pc))
        if not waiting or not self.watches:
            return
        number = waiting.pop(0)
        for owner, ref in bound.binding.made:
            where = f"{owner.index} {ref.type.loc}"
            found = sum(map(mask, tile_bytes(ref, ref.v_row, ref.v_col)))
            self.accesses[number] = Access({}, {where: found})

    def work(self, core, access) -> None:
        count = sum(1 for c, _ in self.places if c == core.index)
        self.places[core.index, count] = len(self.events)
        self.data.append(len(self.events))
        if access is not None:
            self.accesses.append(access)


KNOWN = (
    "set",
    "wait",
    "barrier",
    "cross_set",
    "cross_wait",
    "push",
    "pop",
    "free",
    "get",
    "release",
)


_SHADOWS: dict = {}


def bytes_of(core, inst, binding) -> Access:
    """The bytes of an operation; what it spoils counts as written."""

    def shadow(owner, where):
        if isinstance(where, int):
            return _SHADOWS.setdefault(where, Shadow(str(where), 1 << 26, 1))
        if where in CUBE_SPACES and owner.kind == "vector":  # L1 is the cube core's
            cores = (c for c in binding.machine.cores if c.cluster is owner.cluster)
            owner = next((c for c in cores if c.kind == "cube"), owner)
        is_register = where.startswith(REGISTER)
        size = (
            SPECIAL_REGISTER_BYTES if is_register else owner.space(where).size
        )  # of the target: the next program may have another
        name = f"{owner.index} {where}"
        return _SHADOWS.setdefault((name, size), Shadow(name, size, 1))

    found = access_of(core, inst, binding, shadow)
    writes = [*found.writes, *(p for p, _ in found.spoils)]
    return Access(masks((*found.reads, *found.found)), masks(writes), found.is_atomic)


def logged(core, stores: set[int]) -> Access:
    """The bytes of a vector region, from the log of UB."""
    reached = [0, 0]
    for value in core.ub.log or ():
        if value < 0:
            code, starts, size = core.ub.parts[-1 - value]
        else:
            code, starts, size = value >> 32, [value & 0xFFFFF], value >> 20 & 0xFFF
        for start in starts:
            reached[code in stores] |= ((1 << size) - 1) << int(start)
    where = f"{core.index} vec"
    return Access({where: reached[0]}, {where: reached[1]}, False)


def masks(prints) -> dict:
    found: dict = {}
    for one in prints:
        for part in one.parts:
            found[one.shadow.name] = found.get(one.shadow.name, 0) | mask(part)
    return found


@lru_cache(maxsize=4096)
def mask(part) -> int:
    bits, starts = (1 << part.run) - 1, [part.start]
    for count, distance in part.dims:
        starts = [s + i * distance for s in starts for i in range(count)]
    total = 0
    for start in starts:
        total |= bits << start
    return total


# -- programs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    name: str
    target: str
    text: str
    args: dict = field(default_factory=dict, hash=False)
    profile: str = "hw"
    level: int | None = None
    entry: str | None = None


def canonical(text: str) -> str:
    """One operation a line."""
    return print_module(parse(Source("k", text), Sink()))


def synchronised(text: str, target: str, level: int | None) -> str:
    return rewritten(Source("k", text), FrontOptions(target, level), plan=False, insert_sync=True)[
        0
    ]


LEFT_OPEN = {("model/rmsnorm_int8", "a2a3")}
"""Insertion does not see what the library's code for a broadcast there writes (PTO5204 stays)."""


Made = tuple[str, Callable[[], Case]]
"""The name of a case, and what makes it: flags are inserted when a test asks for it, not at import."""


def shipped() -> Iterator[Made]:
    for name in on_one_device():
        beside = sidecar_of(source_path(f"@{name}"))
        if beside is None or beside.exit_code or name.startswith(("broken/", "page/")):
            continue
        for target in beside.targets:
            if (name, target) not in LEFT_OPEN:
                yield f"{name}-{target}", partial(_shipped, name, target, beside)


def _shipped(name: str, target: str, beside: Sidecar) -> Case:
    args = {n: array_files.parse_spec(s, beside.folder) for n, s in beside.args.items()}
    level = beside.options.get("level")
    text = source_path(f"@{name}").read_text(encoding="utf-8")
    flagged = synchronised(text, target, level)
    profile, entry = beside.options.get("profile", "hw"), beside.options.get("entry")
    return Case(name, target, canonical(flagged), args, profile, level, entry)


def generated(seed: int, target: str) -> str:
    """Loads, sums, fills and stores on three tiles, in order, in a loop and after it."""
    rng = random.Random(seed)

    def line() -> str:
        kind = rng.choice(("load", "store", "add", "add", "fill"))
        a, b, c = (f"%t{rng.randrange(3)}" for _ in range(3))
        if kind == "load":
            return f"pto.tload ins(%px : !pto.partition_tensor_view<16x64xf32>) outs({a} : {TILE})"
        if kind == "store":
            return f"pto.tstore ins({a} : {TILE}) outs(%py : !pto.partition_tensor_view<16x64xf32>)"
        if kind == "fill":
            return f"pto.texpands ins(%one : f32) outs({a} : {TILE})"
        return f"pto.tadd ins({a}, {b} : {TILE}, {TILE}) outs({c} : {TILE})"

    def block(count: int) -> str:
        return "\n".join(line() for _ in range(count))

    tiles = "\n".join(f"%t{n} = pto.alloc_tile : {TILE}" for n in range(3))
    fills = "\n".join(f"pto.texpands ins(%one : f32) outs(%t{n} : {TILE})" for n in range(3))
    body = f"%one = arith.constant 1.0 : f32\n{tiles}\n{fills}\n{block(rng.randrange(1, 4))}\n"
    body += f"scf.for %i = %c0 to %c2 step %c1 {{\n{block(rng.randrange(2, 6))}\n}}\n"
    return program(f"{body}{block(rng.randrange(1, 4))}", target)


def made() -> Iterator[Made]:
    for seed in range(5):
        for target in ("a2a3", "a5"):
            yield f"made{seed}-{target}", partial(_made, seed, target)


def _made(seed: int, target: str) -> Case:
    text = synchronised(generated(seed, target), target, None)
    return Case(f"made{seed}", target, canonical(text), {"x": X, "y": np.zeros_like(X)})


HALF = "!pto.partition_tensor_view<8x64xf32>"
EIGHT = "!pto.tile_buf<vec, 8x64xf32>"
WHOLE = "!pto.partition_tensor_view<16x64xf32>"
CUBE = "!pto.tile_buf<mat, 16x64xf32>"


def crossed(target: str) -> str:
    """Each vector core writes its half of y, the cube core reads both, then the halves are written
    again; at the end all cores meet."""
    a5 = target == "a5"
    flag = "pto.{}_flag[<PIPE_MTE2>, <PIPE_MTE3>, <EVENT_ID{}>]".format
    waits = [
        "pto.sync.wait <PIPE_MTE2>, 5",
        *(["pto.wait_intra_block <PIPE_MTE2>, 21"] if a5 else []),
    ]
    sets = ["pto.sync.set <PIPE_FIX>, 6", *(["pto.set_intra_block <PIPE_FIX>, 22"] if a5 else [])]
    store = f"pto.tstore ins(%e : {EIGHT}) outs(%half : {HALF})"
    cube = [
        f"%m = pto.alloc_tile : {CUBE}",
        *waits,
        f"pto.tload ins(%py : {WHOLE}) outs(%m : {CUBE})",
    ]
    vector = [
        "%which = pto.get_subblock_idx",
        "%at = arith.index_cast %which : i64 to index",
        "%row = arith.muli %at, %c8 : index",
        f"%half = pto.partition_view %vy, offsets = [%row, %c0], sizes = [%c8, %c64] : !pto.tensor_view<16x64xf32> -> {HALF}",
        f"%from = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c8, %c64] : !pto.tensor_view<16x64xf32> -> {HALF}",
        f"%e = pto.alloc_tile : {EIGHT}",
        f"pto.tload ins(%from : {HALF}) outs(%e : {EIGHT})",
        flag("set", 0),
        flag("wait", 0),
        store,
        "pto.sync.set <PIPE_MTE3>, 5",
        "pto.sync.wait <PIPE_MTE3>, 6",
        store,
    ]
    flags = "" if a5 else "%f = memref.alloc() : memref<16xi64>\npto.set_ffts %f : memref<16xi64>\n"
    modes = "mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>"
    meet = f"pto.syncall() {modes}"
    body = mixed(
        "\n".join([*cube, "pto.barrier <PIPE_ALL>", *sets, meet]), "\n".join([*vector, meet])
    )
    return program(f"%c8 = arith.constant 8 : index\n{flags}{body}", target)


def cores(target: str) -> Case:
    return Case("cores", target, canonical(crossed(target)), {"x": X, "y": np.zeros_like(X)})


def guarded() -> Case:
    """A5: loads, sums and stores in a loop, each pipe holding the tokens of the tiles it touches."""

    def held(pipe: str, line: str, *tokens: int) -> list[str]:
        form = 'pto.{}_buf "PIPE_{}", {}, 0'.format
        return [
            *(form("get", pipe, t) for t in tokens),
            line,
            *(form("rls", pipe, t) for t in tokens),
        ]

    tiles = [f"%b = pto.alloc_tile : {TILE}"]
    lines = [
        *held("MTE2", f"pto.tload ins(%px : {WHOLE}) outs(%a : {TILE})", 0),
        *held("V", f"pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%b : {TILE})", 0, 1),
        *held("MTE3", f"pto.tstore ins(%b : {TILE}) outs(%py : {WHOLE})", 1),
    ]
    loop = ["scf.for %i = %c0 to %c2 step %c1 {", *lines, "}"]
    given = {"x": X, "y": np.zeros_like(X)}
    return Case("tokens", "a5", canonical(program("\n".join([*tiles, *loop]), "a5")), given)


CASES: dict[str, Callable[[], Case]] = {
    **dict(shipped()),
    **dict(made()),
    **{f"cores-{target}": partial(cores, target) for target in ("a2a3", "a5")},
    "tokens-a5": guarded,
}


# -- the property ---------------------------------------------------------------------------------


def observed(case: Case, text: str, *, watches: bool) -> tuple[Trace, set[str]]:
    """What a text executes and what is found; on values where data decide the path."""
    front = run_frontend(Source("k", text), FrontOptions(case.target, case.level, "manual"))
    assert not front.sink.has_errors, list(front.sink)
    loaded = LoadedProgram.of(front, case.profile)
    trace = Trace(case.target, watches=watches)
    outcome = follow(front, loaded.profile, loaded.entry(case.entry), case.args, observers=[trace])
    findings = outcome.findings
    if "depends on" in outcome.ended:
        trace = Trace(case.target, watches=watches)
        try:
            findings = loaded.run(
                case.args, entry=case.entry, observers=[trace], timing=False
            ).findings
        except ptosim.Trap as trap:
            findings = trap.diagnostics
    return trace, {d.code for d in findings}


def chosen(case: Case) -> list:
    every = list(mutants(case.text))
    if os.environ.get("PTOSIM_MUTANTS") == "all" or len(every) <= PER_PROGRAM:
        return every
    return random.Random(f"{case.name} {case.target}").sample(every, PER_PROGRAM)


@pytest.mark.sampled(3, 20)
@pytest.mark.parametrize("name", CASES)
def test_mutants(name):
    """Reported as a race or a deadlock exactly if a conflicting pair is unordered."""
    case = CASES[name]()
    assert sync_lines(case.text) or name.startswith("micro/")
    trace, codes = observed(case, case.text, watches=True)
    assert not codes & {*RACES, *HYGIENE, "PTO5006"}, "the program itself is right"
    if not trace.is_plain or len(trace.events) > MAX_EVENTS:
        COUNTS["programs left out (too long for the graph)"] += 1
        return
    skipped = {at + 1 for at in sync_lines(case.text)} - trace.lines
    NOT_TAKEN.update({f"{case.name} {case.target} line {line}": None for line in sorted(skipped)})
    data_events = [trace.events[i] for i in trace.data]
    names = {event: name for name, event in trace.places.items()}
    pairs = [
        (names[trace.data[a]], names[trace.data[b]])
        for a, b in conflicts(data_events, trace.accesses, case.target)
    ]
    assert not unordered(trace, pairs, Ordering(trace.events, case.target))
    for mutant in chosen(case):
        verdict(case, mutant, pairs)


def unordered(trace: Trace, pairs, order: Ordering) -> list:
    """The pairs of which neither is done when the other begins (on one core: the second)."""
    found = []
    for one, two in pairs:
        a, b = trace.places[one], trace.places[two]
        swapped = one[0] != two[0] and order.is_ordered(b, a)
        if not (order.is_ordered(a, b) or swapped):
            found.append((one, two))
    return found


def verdict(case: Case, mutant, pairs) -> None:
    where = f"{case.name} {case.target}: {mutant.kind} line {mutant.line}\n{mutant.text}"
    trace, codes = observed(case, mutant.text, watches=False)
    COUNTS[f"{mutant.kind} tried"] += 1
    raced, stopped = bool(codes & set(RACES)), "PTO5006" in codes
    order = Ordering(trace.events, case.target)
    assert order.misused == ("PTO5004" in codes), where
    if order.misused:
        COUNTS["token that nobody holds"] += 1
        return
    if stopped:
        COUNTS["deadlock"] += 1
        assert order.stuck, where
        return
    assert not order.stuck, where
    broken = unordered(trace, pairs, order)
    assert raced == bool(broken), (where, broken[:3], codes)
    COUNTS["race" if raced else "hygiene" if codes & set(HYGIENE) else "harmless"] += 1


def test_counts():
    """What was tried, for the reader of the log (`-s`)."""
    total = sum(n for k, n in COUNTS.items() if k.endswith("tried"))
    print("\nmutants:", total, dict(sorted(COUNTS.items())))
    print("synchronisation on branches that were not taken:", list(NOT_TAKEN) or "none")
    assert total == 0 or COUNTS["race"] > 0
    assert {k.split()[0] for k in COUNTS if k.endswith("tried")} <= set(KINDS)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("made")])
def test_ordered_mutants_compute_the_same_at_retirement(name):
    """A program without races gives the same bytes whichever way its pipes run."""
    case = CASES[name]()
    reference = ptosim.load(case.text, target=case.target, sync="manual").run(case.args)
    for mutant in random.Random(case.name).sample(list(mutants(case.text)), 6):
        source = Source("k", mutant.text)
        codes = {d.code for d in check_source(source, case.target, sync="manual").findings}
        if codes & {*RACES, "PTO5006"}:
            continue
        loaded = ptosim.load(mutant.text, target=case.target, sync="manual")
        for commit in ("program", "retire"):
            result = loaded.run(case.args, commit=commit)
            assert result.outputs["y"].tobytes() == reference.outputs["y"].tobytes(), mutant
