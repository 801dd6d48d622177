"""What `ptosim.load` gives: a program that can be run, timed and debugged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptosim.run.launch import Launch
from ptosim.run.options import Args, RunOptions
from ptosim.run.program import LoadedProgram

if TYPE_CHECKING:
    from ptosim.debug.session import Debugger


class Program(LoadedProgram):
    """A program that was parsed and checked. Made by `ptosim.load`."""

    def debug(self, args: Args = None, *, entry: str | None = None, **options: Any) -> Debugger:
        """Return a debugger before the first operation of a run; `options` are those of `run`.
        Raises what `run` raises before its first operation."""
        from ptosim.debug.session import Debugger  # a run does without

        chosen = RunOptions(**options)
        return Debugger(Launch(self.front, self.profile, chosen).prepare(self.entry(entry), args))
