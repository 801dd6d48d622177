"""Writes addresses and synchronisation into the text of a program."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import UsageError, rejected
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MultiTileType, TileType
from ptosim.ground.isa.targets import machine
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.place.cores import has_abstract, reached_functions
from ptosim.language.place.planner import Placement, called_functions, place
from ptosim.language.verify.checks.simt import ENTRY
from ptosim.language.verify.verbs import HELPER
from ptosim.launch.analysis.insert_sync.planner import Accesses, Plan, Planner, number


class Edits:
    """Lines to insert into a text, in the order in which they are asked for at each place."""

    def __init__(self, source: Source) -> None:
        self.text = source.text
        self._edits: list[tuple[int, int, int, str]] = []

    def before(self, op: Operation, line: str) -> None:
        """Insert a line before an operation."""
        self._add(op.start, 1, f"{line}\n{self._indent(op)}")

    def after(self, op: Operation, line: str) -> None:
        """Insert a line after an operation."""
        self._add(self._end(op), 0, f"\n{self._indent(op)}{line}")

    def inside(self, at: int, text: str) -> None:
        """Insert text at an offset."""
        self._add(at, 1, text)

    def _add(self, at: int, kind: int, text: str) -> None:
        self._edits.append((at, kind, len(self._edits), text))

    def _end(self, op: Operation) -> int:
        """The end of an operation, or of the comment that follows it on its line."""
        end = self.text.find("\n", op.end)
        rest = self.text[op.end : end if end >= 0 else len(self.text)]
        return op.end + len(rest) if rest.strip().startswith(("//", "#")) else op.end

    def _indent(self, op: Operation) -> str:
        start = self.text.rfind("\n", 0, op.start) + 1
        head = self.text[start : op.start]
        return head[: len(head) - len(head.lstrip())]

    def apply(self) -> str:
        """Return the text with everything inserted."""
        text = self.text
        for at, _, _, piece in sorted(self._edits, reverse=True):
            text = text[:at] + piece + text[at:]
        return text


def rewritten(
    source: Source, options: FrontOptions, *, plan: bool, insert_sync: bool
) -> tuple[str, Sink]:
    """Return the text of a program with addresses (`plan`) and flags (`insert_sync`), and notes on
    what was left as it is. Raises ProgramError if the program is wrong."""
    front = run_frontend(source, options)
    if front.sink.is_rejected:
        raise rejected(list(front.sink))
    if any(has_abstract(f) for f in _bodies(front.resolved)):
        raise UsageError(
            "tiles without a shape cannot be planned: it comes from the arguments",
            help="write shape and element type into the types",
        )
    sink = Sink()
    edits = Edits(source)
    if insert_sync:
        for function in _bodies(front.resolved):
            _synchronise(front, function, edits, sink)
    if plan:
        _addresses(front, edits)
    return edits.apply(), sink


def _bodies(resolved: ResolvedModule) -> list[Function]:
    return [f for f in resolved.functions.values() if f.has_body]


def _placement(front: Front, function: Function) -> Placement:
    return place(front.resolved, reached_functions(front.resolved, [function]), Sink())


# -- synchronisation ------------------------------------------------------------------------------


def plan_of(front: Front, function: Function) -> Plan:
    """Return the synchronisation that a function needs."""
    planner = Planner(Accesses(front.resolved, _placement(front, function)), front.target)
    planner.function(function.body, function.op.regions[0].blocks)
    number(planner.plan, machine(front.chip).event_ids)
    return planner.plan


def _synchronise(front: Front, function: Function, edits: Edits, sink: Sink) -> None:
    if HELPER in function.op.attrs or ENTRY in function.op.attrs:
        return  # its caller orders it, as one operation
    written = next((op for op in function.op.walk() if op.has("sync")), None)
    if written is not None:
        sink.report(
            "PTO5220",
            f"@{function.name} has synchronisation of its own and is left as it is",
            front.resolved.module.span(written),
            help="remove it all to have it inserted",
        )
        return
    _write_plan(plan_of(front, function), edits)


def _write_plan(plan: Plan, edits: Edits) -> None:
    wall = "pto.barrier <PIPE_ALL>"
    for op in plan.walls_after:
        edits.after(op, wall)
    for flag in plan.flags:
        name = f"[<PIPE_{flag.source}>, <PIPE_{flag.target}>, <EVENT_ID{flag.number}>]"
        edits.after(flag.first, f"pto.set_flag{name}")
        if flag.loop is not None:
            edits.before(flag.loop, f"pto.set_flag{name}")
            edits.after(flag.loop, f"pto.wait_flag{name}")
        edits.before(flag.second, f"pto.wait_flag{name}")
    for op, pipe in plan.barriers:
        edits.before(op, f"pto.barrier <PIPE_{pipe}>")
    for op in dict.fromkeys(plan.walls_before):
        edits.before(op, wall)


# -- addresses ------------------------------------------------------------------------------------


def _addresses(front: Front, edits: Edits) -> None:
    """What calls a function decides where its tiles are: beside those of the caller."""
    planned: dict[Operation, tuple[int, str]] = {}
    for function in _roots(front.resolved):
        if function.implicit:
            raise UsageError(
                "--plan writes addresses into functions; this is a snippet",
                help="run it as it is: ptosim places its tiles",
            )
        reached = reached_functions(front.resolved, [function])
        placement = place(front.resolved, reached, Sink())
        _refuse_values(front, placement)
        for op in (op for f in reached for op in f.op.walk()):
            if not _is_allocation(op) or isinstance(op.bound.get("addr"), Operand):
                continue
            at, root = planned.setdefault(op, (placement.values[op.results[0]], function.name))
            if at != placement.values[op.results[0]]:
                raise _two_places(front, op, root, function.name)
    for count, (op, (at, _)) in enumerate(planned.items()):
        edits.before(op, f"%ptosim_addr{count} = arith.constant {at} : i64")
        edits.inside(op.name_end, f" addr = %ptosim_addr{count}")


def _roots(resolved: ResolvedModule) -> list[Function]:
    """Functions with a body that no other function calls."""
    bodies = _bodies(resolved)
    called = called_functions(bodies)
    return [f for f in bodies if f.name not in called]


def _two_places(front: Front, op: Operation, one: str, two: str) -> UsageError:
    line, _ = front.source.line_column(op.start)
    return UsageError(
        f"--plan: %{op.results[0].name} in line {line} is at one address for @{one} and at "
        f"another for @{two}",
        help="pass the tile as an argument, or give each of them a function of its own",
    )


def _is_allocation(op: Operation) -> bool:
    """True for an allocation of a tile, or of several."""
    kinds = (TileType, MultiTileType)
    return op.has("makes_storage") and any(isinstance(v.type, kinds) for v in op.results)


def _refuse_values(front: Front, placement: Placement) -> None:
    """Only alloc_tile can carry an address."""
    for value in placement.values:
        owner = value.owner
        if owner is None or _is_allocation(owner) or owner.has("places"):
            continue
        line, _ = front.source.line_column(value.start)
        raise UsageError(
            f"--plan: %{value.name} in line {line} has no alloc_tile that could take an address",
            help="convert the program with `fmt --to dps` first",
        )
