"""Rewrites that need no template, each priced and proven: what became of the text, what it costs
before and after, and whether both programs are equal for all inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ptosim.ground.errors import PtosimError
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.launch.program import LoadedProgram
from ptosim.launch.sidecar import Sidecar
from ptosim.time.report.totals import CostReport
from ptosim.tools.search.prove import REFUSED, UNEQUAL, Launched, Proof, prove, same_values
from ptosim.tools.search.rewrite_buffers import double_buffered
from ptosim.tools.search.rewrite_rows import MOST_PIECES, split_rows
from ptosim.tools.search.rewrite_sync import lean_sync, options_of, planned_sync
from ptosim.tools.search.rewrite_text import NotApplicable, read


@dataclass(frozen=True, slots=True)
class Launch:
    """How the programs that are compared are launched."""

    entry: str | None = None
    args: Mapping[str, Any] | None = None
    block_num: int = 1

    def of(self, program: LoadedProgram) -> Launched:
        """Return a program with this launch."""
        return Launched(program, self.entry, self.args, self.block_num)

    def report(self, program: LoadedProgram) -> CostReport:
        """Return what a program costs. Raises PtosimError where it cannot be told."""
        return program.cost(entry=self.entry, args=self.args, block_num=self.block_num)

    def cycles(self, program: LoadedProgram) -> int:
        """Return the cycles of a program. Raises PtosimError where they cannot be told."""
        return self.report(program).cycles


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A program after a rewrite; cycles are None where the cost could not be told."""

    source: Source
    proof: Proof
    before: int | None
    after: int | None

    def __str__(self) -> str:
        price = f"{self.before:,} -> {self.after:,} cycles" if self.before and self.after else ""
        told = f"proven equal for all inputs ({self.proof.elements:,} elements)"
        if not self.proof.is_equal:
            told = f"not proven equal: {self.proof.why}"
        return ", ".join(part for part in (price, told) if part)


Rewrite = Callable[[LoadedProgram, Launch], Source]
"""Gives the text of a program after a rewrite; raises NotApplicable where there is nothing to do or
it cannot be done."""


def _lean(program: LoadedProgram, launch: Launch) -> Source:
    return lean_sync(program, program.entry(launch.entry), launch.args).front.source


def _planned(program: LoadedProgram, launch: Launch) -> Source:
    return planned_sync(program.front.source, options_of(program))


def _double(program: LoadedProgram, launch: Launch) -> Source:
    return double_buffered(program.front.source, options_of(program))


def _pieces(count: int) -> Rewrite:
    return lambda program, launch: split_rows(program.front.source, options_of(program), count)


REWRITES: dict[str, Rewrite] = {
    "flags and event ids planned anew": _planned,
    "redundant synchronisation out": _lean,
    "double buffering": _double,
    **{f"rows in {count} pieces": _pieces(count) for count in MOST_PIECES},
}
"""By what reports call them. They build on one another."""


def applied(program: LoadedProgram, rewrite: Rewrite, launch: Launch) -> LoadedProgram:
    """Return a program after a rewrite, read as the original was. Raises NotApplicable."""
    source = rewrite(program, launch)
    return LoadedProgram.of(read(source, options_of(program)), program.profile.name)


def checked(program: LoadedProgram, changed: Source, launch: Launch) -> Rewritten:
    """Price and prove what a rewrite made. Raises NotApplicable if it is refused."""
    after = LoadedProgram.of(read(changed, options_of(program)), program.profile.name)
    return Rewritten(
        changed, _proven(program, after, launch), _price(program, launch), _price(after, launch)
    )


def _proven(before: LoadedProgram, after: LoadedProgram, launch: Launch) -> Proof:
    try:
        return prove(launch.of(before), launch.of(after))
    except PtosimError as problem:
        return Proof(REFUSED, f"the launch is not known: {problem}")


def _price(program: LoadedProgram, launch: Launch) -> int | None:
    try:
        return launch.cycles(program)
    except PtosimError:
        return None


def double_buffer(source: Source, options: FrontOptions, sidecar: Sidecar | None) -> Rewritten:
    """Return a program with two buffers in its loops, flags included; equality is proven for the
    launch of the sidecar, else for data of the shapes that the views imply. Raises NotApplicable
    where there is no loop for it, where there is no room, or where the result would differ."""
    program = LoadedProgram.of(read(source, options), "hw", sidecar=sidecar)
    kept = sidecar.options if sidecar is not None else {}
    launch = Launch(kept.get("entry"), launch_args(sidecar), kept.get("block_num") or 1)
    made = checked(program, double_buffered(source, options), launch)
    if made.proof.verdict == UNEQUAL or made.proof.is_of_second:
        raise NotApplicable(f"second buffers would not be equal: {made.proof.why}")
    if made.before is not None and made.after is not None and made.after >= made.before:
        raise NotApplicable(f"second buffers win nothing: {made.before:,} -> {made.after:,} cycles")
    differs = "" if made.proof.is_equal else _compared(program, made.source, launch)
    if differs:
        raise NotApplicable(f"second buffers would change {differs}")
    return made


def _compared(program: LoadedProgram, changed: Source, launch: Launch) -> str:
    """Where values differ first, of programs of which there is no proof; '' also if they cannot be
    run: the warning that nothing is proven says that."""
    after = LoadedProgram.of(read(changed, options_of(program)), program.profile.name)
    try:
        return same_values(launch.of(program), launch.of(after), [launch.args or 0])
    except PtosimError:
        return ""


def launch_args(sidecar: Sidecar | None) -> Mapping[str, Any] | None:
    """Return the arguments that a sidecar keeps, None if there is none."""
    from ptosim.launch.case import kept_arguments

    return kept_arguments(sidecar) if sidecar is not None else None


__all__ = [
    "REWRITES",
    "Launch",
    "NotApplicable",
    "Rewritten",
    "applied",
    "checked",
    "double_buffer",
]
