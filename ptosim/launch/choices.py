"""What a program is launched with, as a command line or an editor asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from ptosim.ground.processes import keep
from ptosim.ground.records import dataclass, field, replace
from ptosim.language.frontend import Front, FrontOptions, run_frontend
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
from ptosim.launch.sources import function_named, open_source, source_path, split_part

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

    def front(self) -> Front:
        """Return the program as the static checks leave it."""
        source = open_source(self.file)
        asked = FrontOptions(
            self.target,
            self.level,
            self.sync,
            self.compat,
            self.entry,
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
        program = LoadedProgram.of(checked, self.profile or "hw", self.switches, self.sidecar)
        keep()
        return program

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
        return {name: value for name, value in given.items() if value is not None}
