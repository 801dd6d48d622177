"""Loops that run often, as Python functions: the same closures and bindings in the same order,
without fetching, telling apart and looking up every instruction.

A function is written from the instructions of a loop, inner loops and branches included, once for a
program; each core has an instance on its own bindings. An operation whose operands the loop does
not change is looked up once, when the loop is entered, and only if it is bound by then: nothing is
bound, reported or refused at another time than instruction by instruction. Where anything is
unusual (an operation has to wait, a limit is near, something is not bound yet) the function
returns, and the engine goes on one instruction at a time. Whoever looks on during a run switches it
off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.engine.batch.batches import Batches
from ptosim.engine.core.loop_function import Compiled
from ptosim.engine.core.loop_path import Check, Path, Place
from ptosim.engine.core.loop_rounds import Round, steps_in_rounds
from ptosim.engine.core.records import DecodedProgram, Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass, field
from ptosim.machine.core import FIRST_SLOT, Core

HOT = 50
"""Rounds of a loop before it is compiled, which takes about as long; half as many where each round
takes longer because it is timed or watched."""
MOST = 800
"""Instructions in one function; what comes after is left to the engine."""
DEEPEST = 15
"""Loops in one another in a function; Python takes twenty."""


@dataclass(eq=False)
class _Writer:
    """Writes the function of the loop that begins at `head`."""

    program: DecodedProgram
    head: int
    core: Core
    timing: Any
    batches: Batches
    lines: list[str | Check] = field(default_factory=list)
    places: dict[int, Place] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    executed: list[Inst] = field(default_factory=list)
    written: int = 0
    fixed: set[int] = field(default_factory=set)
    without_guard: set[int] = field(default_factory=set)  # of those
    round: Round | None = None  # the one that is being written
    rounds: list[Round] = field(default_factory=list)

    def compile(self) -> Compiled:
        """Write the loop twice: which operands it leaves alone is known when it is written once."""
        self._function()
        changed = self._changed()
        self.fixed = {i.pc for i in self.executed if self._is_fixed(i, changed)}
        self.lines, self.places, self.executed, self.written = [], {}, [], 0
        self.rounds = []
        self._function()
        text = "\n".join(x if isinstance(x, str) else x.text() for x in self.lines)
        code = compile(text, f"<ptosim loop at {self.head}>", "exec")
        looked_up = [self.program.insts[pc] for pc in sorted(self.fixed)]
        return Compiled(code, self.places, self.names, looked_up, self.without_guard, self.rounds)

    def _function(self) -> None:
        self._line(0, "def loop(s, limit, c, quick):")
        self._line(1, "n = 0")
        self._look_up()
        self._batch(self.head, 1)
        self._rounds(self.head, 1, (self.head,))

    def _rounds(self, head: int, indent: int, heads: tuple[int, ...]) -> None:
        """Write the rounds of a loop."""
        core, timing = self.core, self.timing
        steps = steps_in_rounds(self.program, head, self.fixed, core.bounds, timing)
        if steps is not None:
            self.round = Round(head, varies=not self.fixed.issuperset(steps))
            self.rounds.append(self.round)
            self._line(indent, self.round.begin(steps))
            self._line(indent, "try:")
            indent += 1
        self._line(indent, "while True:")
        self._from(head, indent + 1, self._check(head, indent + 1), heads)
        if self.round is not None:
            self._line(indent - 1, "finally:")
            self._line(indent, self.round.leave())
            self.round = None

    # -- what a loop changes ----------------------------------------------------------------------

    def _changed(self) -> set[int]:
        """The slots that any instruction of the loop writes."""
        slots = self.program.slots
        changed = set(range(FIRST_SLOT)) if self._has_state() else set[int]()
        for pc in self.used:
            inst = self.program.insts[pc]
            form = form_of(inst.run)
            if form is not None and form[0] in ("copy", "start", "next"):
                changed.update(form[-1])
            if form is not None and form[0] == "next":
                changed.add(form[1])
            if form is not None and form[0] == "call":
                changed.add(form[3])
            op = inst.op
            if isinstance(op, Operation) and not op.regions:
                changed.update(slots[v] for v in op.results if v in slots)
        return changed

    def _has_state(self) -> bool:
        """True if instructions may set modes of the machine, which have slots of their own."""
        return any(self.program.insts[pc].kind in (Kind.ACTION, Kind.EXEC) for pc in self.used)

    def _is_fixed(self, inst: Inst, changed: set[int]) -> bool:
        """True if an operation has one binding while the loop runs, and it is there."""
        if not changed.isdisjoint(_slots_of(inst)):
            return False
        cache = self.core.bounds[inst.pc]
        bound = cache.get(inst.getter(self.core.slots)) if cache is not None else None
        return bound is not None and (self.timing is None or bool(bound.cost))

    def _look_up(self) -> None:
        """Find the bindings of operations that the loop does not change."""
        if not self.fixed:
            return
        names: list[str] = []
        for pc in sorted(self.fixed):
            cache = self.core.bounds[pc]
            found = cache.get(self.program.insts[pc].getter(self.core.slots)) if cache else None
            if found is not None and found.guard is None:
                self.without_guard.add(pc)
            names.append(f"k{pc}")
            names += [f"{x}{pc}" for x in "buq" if pc not in self.without_guard]
            names += [f"t{pc}"] if self.timing is not None else []
        self._line(1, "found = look(s, quick)")
        self._line(1, f"if found is None: return {self.head}, 0, c, True")
        self._line(1, f"{', '.join(names)}, = found")

    # -- text -------------------------------------------------------------------------------------

    def _line(self, indent: int, text: str) -> None:
        self.lines.append(" " * indent + text)

    def _batch(self, head: int, indent: int) -> None:
        """Execute the rounds of a loop at once, as many as may be."""
        if self.batches.at(head) is None:
            return
        self.names["batch"] = self.batches.run
        self._line(indent, f"m, k = batch(core, {head}, s, limit - n)")
        self._line(indent, "n += m; c += k")

    def _check(self, pc: int, indent: int) -> Path:
        check = Check(pc, indent)
        self.lines.append(check)
        return Path(check)

    def _settle(self, indent: int, path: Path) -> None:
        """Count up what was executed, before the function goes elsewhere."""
        if path.count:
            self._line(indent, f"n += {path.count}")
        if self.timing is not None and path.scalars != "c":
            self._line(indent, f"c = {path.scalars}")

    def _leave(self, indent: int, path: Path, pc: str | int, *, goes_on: bool = True) -> None:
        if self.round is not None and self.round.told:
            self._line(indent, f"x = {self.round.steps}")
        self._settle(indent, path)
        self._line(indent, f"return {pc}, n, c, {goes_on}")

    def _placed(self, inst: Inst, path: Path, *, is_issued: bool = False) -> None:
        """The next line is the one of an instruction."""
        at, following = len(self.lines) + 1, inst.pc + is_issued
        issued = len(self.round.told) if self.round is not None else 0
        self.places[at] = Place(
            inst, path.count, path.carried, path.pending, following, self.round, issued
        )

    def _from(self, pc: int, indent: int, path: Path, heads: tuple[int, ...]) -> None:
        """Write what is executed from a place on, until it leaves or goes back."""
        while True:
            inst = self.program.insts[pc] if pc >= 0 else None
            if inst is None or self.written >= MOST or indent > 40:
                self._leave(indent, path, pc)
                return
            self.written += 1
            self.used.add(pc)
            if inst.kind is not Kind.BRANCH:
                self._instruction(inst, indent, path)
                pc += 1
                continue
            following = self._branch(inst, indent, path, heads)
            if following is None:
                return
            pc = following

    def _branch(self, inst: Inst, indent: int, path: Path, heads: tuple[int, ...]) -> int | None:
        """Write a branch; return where the text goes on, None if it has ended."""
        form: tuple[Any, ...] = form_of(inst.run) or ("",)
        if form[0] == "jump":
            path.step(scalar=True)
            return self._goto(form[1], indent, path, heads)
        if form[0] == "for":
            return self._loop(inst, form, indent, path, heads)
        if form[0] == "if":
            _, condition, then, otherwise = form
            self._placed(inst, path)
            self._line(indent, f"if s[{condition}]:")
            path.step(scalar=True)
            inside = path.copy()
            at = self._goto(then, indent + 1, inside, heads)
            if at is not None:
                self._from(at, indent + 1, inside, heads)
            return self._goto(otherwise, indent, path, heads)
        self.names[f"r{inst.pc}"] = inst.run
        self._placed(inst, path)
        self._line(indent, f"to = r{inst.pc}(s)")
        path.step(scalar=True)
        self._leave(indent, path, "to")
        return None

    def _goto(self, target: int, indent: int, path: Path, heads: tuple[int, ...]) -> int | None:
        """Go to a place: on with the text, or back to the head of a loop."""
        if target not in heads:
            return target
        if target == heads[-1]:
            if self.round is not None:
                self.round.tail = path.pending
                for line in self.round.end():
                    self._line(indent, line)
            self._settle(indent, path)
            self._line(indent, "continue")
        else:
            self._leave(indent, path, target)
        return None

    def _loop(
        self, inst: Inst, form: tuple[Any, ...], indent: int, path: Path, heads: tuple[int, ...]
    ) -> int | None:
        """Write the test of a loop: of the one that is being written, or of one in it."""
        _, variable, upper, body, after = form
        if inst.pc == heads[-1]:
            self._placed(inst, path)
            self._line(indent, f"if not s[{variable}] < s[{upper}]:")
            path.step(scalar=True)
            leaves = path.copy()
            if len(heads) > 1:
                self._settle(indent + 1, leaves)
                self._line(indent + 1, "break")
            else:
                self._leave(indent + 1, leaves, after)
            return body
        if len(heads) >= DEEPEST:
            self._leave(indent, path, inst.pc)
            return None
        self._settle(indent, path)
        self._batch(inst.pc, indent)
        self._rounds(inst.pc, indent, (*heads, inst.pc))
        on = self._check(after, indent)
        path.check, path.count, path.carried, path.pending = on.check, 0, True, 0
        return after

    # -- instructions -----------------------------------------------------------------------------

    def _instruction(self, inst: Inst, indent: int, path: Path) -> None:
        if inst.kind is Kind.EXEC:
            self.executed.append(inst)
            self._execute(inst, indent, path)
            return
        pc = inst.pc
        if inst.kind is Kind.SCALAR:
            text = self._scalar(inst)
            if text:
                self._placed(inst, path)
                self._line(indent, text)
            path.step(scalar=True)
            return
        self.names[f"i{pc}"] = inst
        if inst.kind is Kind.REGION:
            self._tell(inst, f"region(core, i{pc})", indent, path)
            self._placed(inst, path)
            self._line(indent, f"to = enter(core, i{pc})")
            path.step(scalar=False)
            path.told()
            self._line(indent, f"if to != {pc + 1}:")
            self._leave(indent + 1, path.copy(), "to")
            return
        self.names[f"r{pc}"] = inst.run
        self._placed(inst, path)
        self._line(indent, f"r{pc}(core)")
        if inst.kind is Kind.ACTION and self.timing is not None:
            if pc in self.timing.timed:
                self._tell(inst, f"action(core, i{pc})", indent, path)
            if pc in self.timing.timed or pc in self.timing.ends:
                path.told()
        path.step(scalar=False)

    def _scalar(self, inst: Inst) -> str:
        form: tuple[Any, ...] = form_of(inst.run) or ("",)
        if form[0] == "call":
            _, function, sources, result = form
            self.names[f"f{inst.pc}"] = function
            return f"s[{result}] = f{inst.pc}({', '.join(f's[{x}]' for x in sources)})"
        if form[0] == "copy":
            return _assignment(form[1], form[2])
        if form[0] == "next":
            _, variable, step, sources, targets = form
            copies = _assignment(sources, targets)
            return f"{copies}{'; ' if copies else ''}s[{variable}] += s[{step}]"
        self.names[f"r{inst.pc}"] = inst.run
        return f"r{inst.pc}(s)"

    def _tell(self, inst: Inst, step: str, indent: int, path: Path) -> None:
        """Issue an instruction in time."""
        if self.timing is not None:
            self._placed(inst, path)
            self._line(indent, f"issue({step}, {path.scalars})")

    def _execute(self, inst: Inst, indent: int, path: Path) -> None:
        pc = inst.pc
        is_fixed = pc in self.fixed
        if not is_fixed:
            self._bind(inst, indent, path)
        self._issue(inst, is_fixed, indent, path)
        path.told()
        if pc in self.without_guard:
            self._placed(inst, path, is_issued=True)
            self._line(indent, f"k{pc}()")
            path.step(scalar=False)
            return
        self.names[f"i{pc}"] = inst
        texts = [
            f"if {f'q{pc}' if is_fixed else f'quick and at_once(b{pc})'} and u{pc}(): k{pc}()",
            f"elif not wait(core, i{pc}, b{pc}):",
        ]
        if not is_fixed:
            texts = [f"if u{pc} is None: k{pc}()", f"el{texts[0]}", texts[1]]
        for text in texts:
            self._placed(inst, path, is_issued=True)
            self._line(indent, text)
        path.step(scalar=False)
        self._leave(indent + 1, path.copy(), pc + 1, goes_on=False)

    def _issue(self, inst: Inst, is_fixed: bool, indent: int, path: Path) -> None:
        """Issue an operation in time, or note that the round has."""
        pc = inst.pc
        step = f"t{pc}" if is_fixed else f"b{pc}.cost or prepare(core, i{pc}, b{pc})"
        if self.round is None:
            self._tell(inst, step, indent, path)
            return
        if not is_fixed:
            self._placed(inst, path)
            self._line(indent, f"t{pc} = {step}")
        self.round.tell(pc, path.pending)

    def _bind(self, inst: Inst, indent: int, path: Path) -> None:
        pc = inst.pc
        self.names[f"i{pc}"] = inst
        self.names[f"g{pc}"] = inst.getter
        for text in (
            f"b{pc} = bounds[{pc}]",
            f"b{pc} = b{pc}.get(g{pc}(s)) if b{pc} is not None else None",
            f"if b{pc} is None: b{pc} = bind(core, i{pc})",
        ):
            self._placed(inst, path)
            self._line(indent, text)
        self._line(indent, f"k{pc}, u{pc} = b{pc}.commit, b{pc}.guard")


def _slots_of(inst: Inst) -> Iterator[int]:
    for _, slot in inst.operands:
        yield from slot if isinstance(slot, tuple) else (slot,)


def _assignment(sources: tuple[int, ...], targets: tuple[int, ...]) -> str:
    if not sources:
        return ""
    return ", ".join(f"s[{t}]" for t in targets) + " = " + ", ".join(f"s[{x}]" for x in sources)


def compile_loop(
    program: DecodedProgram, head: int, core: Core, timing: Any, batches: Batches
) -> Compiled:
    """Return the loop that begins at `head` as a function, as far as a core has bound it."""
    return _Writer(program, head, core, timing, batches).compile()
