"""What a compiled loop knows of a line of its text: how far the core is when it gets there."""

from __future__ import annotations

from ptosim.engine.core.loop_rounds import Round
from ptosim.engine.core.records import Inst
from ptosim.ground.records import dataclass


@dataclass(slots=True, eq=False)
class Place:
    """Where a line of a function is: the instruction, how many come before it since `n` was counted
    up, and the scalar instructions before it that no issue has told of: `pending`, and those of `c`
    if they are `carried`; where the core is if it fails there. `round` is the one whose operations
    are issued together, of which `issued` come before."""

    inst: Inst
    before: int
    carried: bool
    pending: int
    following: int
    round: Round | None = None
    issued: int = 0


@dataclass(slots=True, eq=False)
class Path:
    """What holds at a point of the text: instructions since `n` was counted up, the check that
    covers them, and scalar instructions since an issue (more than `c` if `carried`)."""

    check: Check
    count: int = 0
    carried: bool = True
    pending: int = 0

    def copy(self) -> Path:
        return Path(self.check, self.count, self.carried, self.pending)

    def step(self, *, scalar: bool) -> None:
        self.count += 1
        self.pending += scalar
        self.check.most = max(self.check.most, self.count)

    def told(self) -> None:
        self.carried, self.pending = False, 0

    @property
    def scalars(self) -> str:
        """The expression of the scalar instructions since an issue."""
        if not self.carried:
            return str(self.pending)
        return f"c + {self.pending}" if self.pending else "c"


@dataclass(slots=True, eq=False)
class Check:
    """A place where the limit is looked at, for the longest way to the next one."""

    pc: int
    indent: int
    most: int = 0

    def text(self) -> str:
        return f"{' ' * self.indent}if n > limit - {self.most}: return {self.pc}, n, c, True"
