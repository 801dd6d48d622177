"""What a program is launched with, as a command line or an editor asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.processes import keep
from ptosim.ground.records import dataclass, field, replace
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.place.cores import peer_functions
from ptosim.launch.array_files import parse_argument
from ptosim.launch.description import (
    OPTIONS,
    Sidecar,
    Tolerance,
    kept_arguments,
    kept_expectations,
    sidecar_of,
)
from ptosim.launch.prepared import NORMAL, Redraw, RunOptions
from ptosim.launch.program import LoadedProgram
from ptosim.launch.sources import beside, function_named, open_source, source_path, split_part

_RUN_OPTIONS = tuple(
    f.name for f in fields(RunOptions) if f.name not in ("in_place", "sizes", "popped")
)


@dataclass(frozen=True, slots=True)
class Choices:
    """A file (a path, `-` or `@name`) and how it is read and launched. None leaves a choice to the
    sidecar of the program, then to the default. `args` are SPECs by name."""

    file: str
    target: str | None = None
    level: int | None = None
    sync: str | None = None
    compat: str | None = None
    legacy: bool = False
    planner: str | None = None
    maker: str | None = None
    profile: str | None = None
    switches: Mapping[str, str] = field(default_factory=dict)
    entry: str | None = None
    args: Mapping[str, str] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)
    parameters: Sequence[str] = ()
    dump: bool = False
    block_num: int | None = None
    ranks: int | None = None
    sanitize: str | None = None
    timing: bool | None = None
    commit: str | None = None
    schedule: int | None = None
    uninit: str | None = None
    seed: int | None = None
    inputs: str | None = None
    peer: str | None = None
    jobs: int | None = None
    max_instructions: int | None = None
    sidecar: Sidecar | None = None

    def completed(self) -> Choices:
        """Return the choices with what the sidecar of the program says where they are open. Raises
        UsageError if it is malformed."""
        function = function_named(self.file) if self.entry is None else None
        if function is not None:
            return replace(self, file=function[0], entry=function[1]).completed()
        file, part = split_part(self.file)
        sidecar = None if file == "-" else sidecar_of(source_path(file), part)
        if sidecar is None:
            return self
        given = sidecar.options
        left = {n: given[n] for n in OPTIONS if n in given and getattr(self, n) is None}
        return replace(self, sidecar=sidecar, **left)

    @property
    def other_half(self) -> str | None:
        """The file of the other half of a pair of kernels, and its function."""
        return self.peer if self.peer not in (None, "stub") else None

    def _halves(self) -> tuple[str, str | None]:
        """The file with the other half, and the name of its function where it is given."""
        named = function_named(self.other_half or "")
        return named if named is not None else (self.other_half or "", None)

    def front(self) -> Front:
        """Return the program as the static checks leave it."""
        source, entry = open_source(self.file), self.entry
        if self.other_half is not None:
            if "#" not in self.other_half:
                raise UsageError(
                    f"--peer does not take `{self.other_half}`", help="`stub`, or `FILE#name`"
                )
            if entry is None:
                alone = replace(self, peer=None).front().resolved.entries
                entry = alone[0] if len(alone) == 1 else None
            source = beside(source, open_source(self._halves()[0]))
        asked = FrontOptions(
            self.target,
            self.level,
            self.sync,
            self.compat,
            entry,
            legacy=self.legacy,
            planner=self.planner,
            maker=self.maker,
            defines=self.defines,
            profile=self.profile,
            parameters=self.parameters,
            dump=self.dump,
        )
        return run_frontend(source, asked)

    def program(self, front: Front | None = None) -> LoadedProgram:
        """Return the program, ready to run; `front` is what `front()` gives, where somebody asked
        it before. Raises ProgramError if it is wrong.

        It lives as long as the process, so the garbage collector need not go through it again and
        again; with thousands of operations each time would take a tenth of a second.
        """
        checked = front or self.front()
        if self.other_half is not None:
            self._check_pair(checked)
        program = LoadedProgram.of(checked, self.profile or "hw", self.switches, self.sidecar)
        keep()
        return program

    def _check_pair(self, front: Front) -> None:
        """Raise UsageError if the function of the other file is not the other half."""
        entry, name = front.entry, self._halves()[1]
        if entry is None or front.sink.is_rejected:
            return
        function = front.resolved.functions.get(entry)
        launched = peer_functions(front.resolved, function) if function is not None else []
        if not any(f.symbol == name or name is None for f in launched[1:]):
            raise UsageError(
                f"`{self.other_half}` is not the other half of @{entry}",
                help="a FIFO that one of them imports joins two kernels, or signals between a cube "
                "kernel and a vector kernel",
            )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the sidecar, and those that were given over them."""
        args: dict[str, Any] = {}
        if self.sidecar is not None:
            args.update(kept_arguments(self.sidecar))
        args.update((name, parse_argument(spec)) for name, spec in self.args.items())
        return args

    def run_arguments(self) -> dict[str, Any]:
        """Return the same for a run: of hard inputs the sidecar's are marked to be drawn again."""
        args = self.arguments()
        if (self.inputs or NORMAL) == NORMAL:
            return args
        return {n: v if n in self.args else Redraw(v) for n, v in args.items()}

    def expected(self) -> dict[str, tuple[Any, Tolerance]]:
        """Return the outputs that the sidecar expects, as long as its own arguments are used."""
        is_own = not self.args and (self.inputs or NORMAL) == NORMAL
        return kept_expectations(self.sidecar) if self.sidecar is not None and is_own else {}

    def run_options(self, *names: str) -> dict[str, Any]:
        """Return keyword arguments of `RunOptions`, all of them or those of these names, without
        those that are left to it."""
        given = {name: getattr(self, name) for name in names or _RUN_OPTIONS}
        given |= {"peer": None} if self.other_half is not None and "peer" in given else {}
        return {name: value for name, value in given.items() if value is not None}
