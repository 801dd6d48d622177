"""What `ptosim.load` gives: a program that can be run, timed and debugged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ptosim.ground.limits import Limits, within
from ptosim.launch.description import kept_arguments
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import Args, RunOptions
from ptosim.launch.program import LoadedProgram

if TYPE_CHECKING:
    from ptosim.debug.session import Debugger
    from ptosim.launch.analysis.memory_map import MemoryMap


class Program(LoadedProgram):
    """A program that was parsed and checked. Made by `ptosim.load`."""

    def debug(
        self,
        args: Args = None,
        *,
        entry: str | None = None,
        max_instructions: int | None = None,
        max_seconds: float | None = None,
        max_memory: int | None = None,
        **options: Any,
    ) -> Debugger:
        """Return a debugger before the first operation of a run; `options` are those of `run`, and
        the limits hold for each of its commands. Raises what `run` raises before its first
        operation."""
        from ptosim.debug.session import Debugger  # a run does without

        limits = Limits(max_instructions, max_seconds, max_memory)
        chosen = RunOptions(**options)
        with within(limits):
            launch = Launch.of(self.front, self.profile, chosen, self.entry(entry), args)
            return Debugger(launch, limits)

    def map(self, args: Mapping[str, Any] | None = None, *, entry: str | None = None) -> MemoryMap:
        """Return what is where in the memories on chip, and when; `args` are scalars that decide a
        path. Raises UsageError for arguments that do not fit."""
        from ptosim.launch.analysis.memory_map import memory_map

        if args is None and self.sidecar is not None:
            args = kept_arguments(self.sidecar)
        return memory_map(self.front, self.profile, self.entry(entry), args or {})
