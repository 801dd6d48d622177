"""The text of loops whose operations are issued in time after a number of rounds, not one by one.

Time depends on which operations are issued and not on values. So while a loop goes round whose body
is one straight line, nobody is told of an operation; where the loop is left, the timing model gets
the rounds at once, and what an incomplete one has issued."""

from __future__ import annotations

from types import FrameType
from typing import Any

from ptosim.engine.core.records import DecodedProgram, Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.ground.records import dataclass, field


@dataclass(slots=True, eq=False)
class Round:
    """A round of the loop at `head`, as far as its text is written: the operations, and the scalar
    instructions before each that no issue has told of; `tail` are those after the last one.
    `varies`: an operation may have another step in another round."""

    head: int
    varies: bool
    told: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    tail: int = 0

    def tell(self, pc: int, pending: int) -> None:
        """An operation is issued."""
        self.told.append(pc)
        self.pending.append(pending)

    @property
    def steps(self) -> str:
        """The expression of what was issued in this round."""
        return f"({''.join(f't{pc}, ' for pc in self.told)})"

    def begin(self, steps: list[int]) -> str:
        """The line before the loop: `r` rounds of the steps `w`, before which there were `d` scalar
        instructions, and the part `x` of another round."""
        of = "".join(f"t{pc}, " for pc in steps)
        return f"r, d, w, x = 0, c, ({'' if self.varies else of}), ()"

    def end(self) -> list[str]:
        """The lines after a round."""
        if not self.varies:
            return ["r += 1"]
        return [
            f"v = {self.steps}",
            f"if v != w: d = rounds{self.head}(w, r, d); w, r = v, 0",
            "r += 1",
        ]

    def leave(self) -> str:
        """The line where the loop is left in whatever way."""
        return f"rounds{self.head}(w, r, d, x)"


def steps_in_rounds(
    program: DecodedProgram, head: int, fixed: set[int], bounds: list[Any], timing: Any
) -> list[int] | None:
    """Return the operations of the loop at `head` if it may be issued in rounds: its body is one
    straight line, and their effects do not look at the time."""
    form = form_of(program.insts[head].run)
    if timing is None or not timing.in_rounds or form is None or form[0] != "for":
        return None
    *body, back = program.insts[head + 1 : form[4]]
    if form_of(back.run) != ("jump", head):
        return None
    if any(inst.kind not in (Kind.SCALAR, Kind.EXEC) for inst in body):
        return None
    steps = [inst for inst in body if inst.kind is Kind.EXEC]
    if not all(_may_be_late(inst, fixed, bounds, timing) for inst in steps):
        return None
    return [inst.pc for inst in steps] or None


def _may_be_late(inst: Inst, fixed: set[int], bounds: list[Any], timing: Any) -> bool:
    """True for an operation with one binding that is not in the time's way, and for a transfer."""
    if inst.pc not in fixed:
        orders = inst.operation.has("sync") or inst.operation.has("handshake")
        # The only result that such an operation may have is the answer to a question.
        return inst.window is not None and not orders and not inst.operation.results
    return all(timing.may_be_late(bound) for bound in bounds[inst.pc].values())


def catch_up(frame: FrameType, round_: Round, issued: int) -> None:
    """Issue what the round had issued in which a function failed."""
    local = frame.f_locals
    steps = tuple(local[f"t{pc}"] for pc in round_.told[:issued])
    carried = local["d"] if local["r"] == 0 else round_.tail
    frame.f_globals[f"rounds{round_.head}"]((), 0, carried, steps)
