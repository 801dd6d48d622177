"""A loaded program and the results of running it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

from ptosim.ground.diagnostics.model import Diagnostic, Trap, rejected
from ptosim.ground.errors import UnsizedError, UsageError
from ptosim.ground.ir.program import COMPUTED
from ptosim.ground.isa.dates import Profile, make_profile
from ptosim.ground.isa.targets import TargetName
from ptosim.ground.limits import Limits, within
from ptosim.ground.progress import Shown
from ptosim.ground.records import dataclass, replace
from ptosim.ground.words import few, nearest
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.place.cores import peer_functions
from ptosim.language.targets import check_target_word
from ptosim.launch import arguments
from ptosim.launch.arguments import Arg
from ptosim.launch.description import Sidecar, Tolerance, kept_arguments, kept_expectations
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import (
    NORMAL,
    Args,
    Redraw,
    RunOptions,
    in_turn,
    may_be_unsure,
    may_repeat,
    wants,
)
from ptosim.launch.results import Result

if TYPE_CHECKING:
    from ptosim.launch.cost import Costs
    from ptosim.launch.generated import Needed
    from ptosim.time.report.totals import CostReport


@dataclass(frozen=True, eq=False, repr=False)
class LoadedProgram(Shown):
    """A program that was parsed and checked: what it takes, its values, its cost."""

    front: Front
    """The checked module."""
    profile: Profile
    """The semantic profile."""
    sidecar: Sidecar | None = None
    """What a file beside the program keeps: arguments, expectations, choices of a launch."""

    @classmethod
    def of(
        cls,
        front: Front,
        profile: str,
        switches: Mapping[str, str] | None = None,
        sidecar: Sidecar | None = None,
    ) -> Self:
        """Return the program of a checked module, with a profile by name. Raises ProgramError if
        the checks found errors, UsageError for a profile or switch that does not exist."""
        chosen = make_profile(profile, front.target, switches, library=front.source.is_cpp)
        if front.sink.is_rejected:
            raise rejected(list(front.sink))
        return cls(front, chosen, sidecar)

    def __repr__(self) -> str:
        names = few([f"@{name}" for name in self.entries], 3)
        return f"<Program {self.front.source.name} for {self.target}: {names or 'no entries'}>"

    @property
    def target(self) -> str:
        """The architecture that it runs on: a2a3 or a5."""
        return self.front.target

    @property
    def chip(self) -> str:
        """The chip that it runs on, for example 910B1: sizes, cores, clock and bandwidths."""
        return self.front.chip

    @property
    def level(self) -> int:
        """The assembler level: 2 plans memory, 3 takes the program's addresses."""
        return self.front.level

    @property
    def compat(self) -> str:
        """The date of the language that it was read as."""
        return self.front.compat

    @property
    def sync(self) -> str:
        """`manual`: the program's flags are all there is; `auto`: they are inserted."""
        return self.front.sync

    @property
    def findings(self) -> list[Diagnostic]:
        """What the static checks found."""
        return list(self.front.sink)

    @property
    def entries(self) -> list[str]:
        """Names of the functions that can be run."""
        return self.front.resolved.entries

    def entry(self, name: str | None = None) -> str:
        """Return the function to run; raises UsageError if it must be named or does not exist."""
        entries = self.entries
        found = entries
        if name is not None:
            name = name.removeprefix("@")
            found = self.front.resolved.entries_named(name)
        if len(found) == 1:
            return found[0]
        if name is not None:
            problem = f"{len(found)} entries are called" if found else "there is no entry"
            listed = few(found or entries) or "none"
            meant = nearest(name, entries) if not found else None
            help_ = f"entries: {listed}" if meant is None else f"{meant} entries: {listed}"
            raise UsageError(f"{problem} `{name}`", help=help_)
        if not entries:
            raise UsageError("the program has no function with a body to run")
        raise UsageError(
            f"the program has {len(entries)} entries; name one with --entry",
            help=f"entries: {few(entries)}",
        )

    def signature(self, entry: str | None = None) -> list[Arg]:
        """Return what an entry takes."""
        resolved = self.front.resolved
        return arguments.signature(peer_functions(resolved, resolved.functions[self.entry(entry)]))

    def run(
        self,
        args: Args = None,
        *,
        entry: str | None = None,
        block_num: int | None = None,
        sanitize: str = "all",
        timing: bool = True,
        commit: str = "program",
        schedule: int = 0,
        schedules: int = 0,
        uninit: str = "poison",
        seed: int | None = None,
        inputs: str = "normal",
        max_instructions: int | None = None,
        max_seconds: float | None = None,
        max_memory: int | None = None,
        ranks: int | None = None,
        in_place: bool = False,
        jobs: int = 1,
        observers: Sequence[Any] = (),
        peer: str | None = None,
    ) -> Result:
        """Run an entry on arguments and return the result; the caller's arrays are not changed,
        unless `in_place` hands them over: then the run works in them, and outputs are those arrays
        (of arrays that overlap each other it makes copies all the same).
        Of a large argument (4 MiB) memory is taken for what the run reaches; as an output it is the
        caller's own array, read-only, where nothing was written to it.

        Raises UsageError for arguments that do not fit, ProgramError (or UnsupportedError) for what
        only the arguments bring out, Trap where the run stops, LimitError, with the place, for a
        program that has not ended after `max_instructions` (100,000,000 if nobody says) or
        `max_seconds` of wall-clock time, or that needs more than `max_memory` bytes.

        With `ranks` N devices run the entry, each with its own blocks, in one address space: `args`
        is a mapping for each, or has `name@R` for rank R; outputs are `name@R`.

        Without `args` those of the sidecar are taken, if the program has one, and its `entry`,
        `block_num`, `seed` and `ranks` where they are left open.

        With `inputs="hard"` (or `cancel`, `ties`, `special`, `extreme`: `ptosim help run`) what is
        left out is drawn as data that is hard for this program, and so are arrays of the sidecar.

        `schedule` is another order of blocks and pipes than that of the text, by number (see
        `ptosim help run`); with `schedules=N` the run is repeated in N of them, and the result's
        `schedules` says what they changed.
        """
        if args is None and self.sidecar is not None:
            args, kept = self._kept(self.sidecar, hard=inputs != NORMAL), self.sidecar.options
            asked = {"entry": entry, "block_num": block_num, "seed": seed, "ranks": ranks}
            entry, block_num, seed, ranks = (
                kept.get(name) if value is None else value for name, value in asked.items()
            )
        if block_num is None:
            block_num = self._blocks(args)
        options = RunOptions(
            block_num, sanitize, timing, commit, uninit, 0 if seed is None else seed, inputs,
            max_instructions, 1 if ranks is None else ranks, in_place, jobs, schedule,
        )  # fmt: skip
        with within(Limits(max_instructions, max_seconds, max_memory)):
            name = self.entry(entry)
            if peer is not None:
                args, popped = self._of_stub(name, args)
                options = replace(options, peer=peer, popped=popped)
            given = self._drawn(name, args, options)
            try:
                result = self._sized(name, given, options, observers, schedules)
            except Trap as trap:
                trap.diagnostics = tuple(self._explained(name, given, options, trap.diagnostics))
                raise
        result.findings = self._explained(name, given, options, result.findings)
        return result

    def _explained(
        self, entry: str, args: Args, options: RunOptions, found: Sequence[Diagnostic]
    ) -> list[Diagnostic]:
        """What a run found, with what the entry requires of its scalars that they break."""
        if not found or options.sanitize == "none" or options.ranks != 1:
            return list(found)
        from ptosim.launch.paths.caller import explained  # most runs find nothing

        return explained(self.front, self.profile, entry, args, options.block_num, found)

    def _sized(
        self,
        entry: str,
        given: Args,
        options: RunOptions,
        observers: Sequence[Any],
        schedules: int,
    ) -> Result:
        """Run with arrays that are left out as large as the text says, or as what it reaches."""
        try:
            return self._in_orders(entry, given, options, observers, schedules)
        except UnsizedError:
            sizes = self._accessed(entry, given, options)
            if not sizes:
                raise
            options = replace(options, sizes=sizes)
            return self._in_orders(entry, given, options, observers, schedules)

    def _of_stub(self, entry: str, args: Args) -> tuple[Args, dict[str, Any]]:
        """The arguments apart from what a stub pushes or returns, by tiles and functions. Raises
        UsageError for an entry that is no half of a pair."""
        from ptosim.launch.peers import names_given

        resolved = self.front.resolved
        launched = peer_functions(resolved, resolved.functions[entry])
        names = names_given(resolved, launched)
        if not isinstance(args, Mapping):
            return args, {}
        popped = {n: a for n, a in args.items() if n in names}
        return {n: a for n, a in args.items() if n not in names}, popped

    def _in_orders(
        self,
        entry: str,
        given: Args,
        options: RunOptions,
        observers: Sequence[Any],
        schedules: int,
    ) -> Result:
        make = partial(self._launch, entry, given)
        if schedules:
            from ptosim.launch.schedules import tried  # few ask for it

            return tried(make, options, schedules)
        if options.in_place and not observers and may_be_unsure(self.front, given):
            options = replace(options, in_place=False)
        result = self._launched(entry, given, options, observers)
        if result.unsure and not observers and not options.in_place:
            from ptosim.launch.schedules import decide  # few need it

            decide(make, options, result)
        return result

    def _accessed(self, entry: str, given: Args, options: RunOptions) -> dict[str, Needed]:
        """Return the sizes of arrays that only the accesses of a launch say."""
        if options.ranks > 1 or not (given is None or isinstance(given, Mapping)):
            return {}
        from ptosim.launch.dry_run import accessed

        return accessed(self.front, self.profile, entry, given or {}, options)

    @staticmethod
    def _kept(sidecar: Sidecar, *, hard: bool) -> dict[str, Any]:
        """Return the arguments of a sidecar; `hard`: those that it draws are drawn anew."""
        args = kept_arguments(sidecar)
        return {name: Redraw(value) for name, value in args.items()} if hard else args

    def _launch(self, entry: str, args: Args, options: RunOptions) -> Launch:
        return Launch.of(self.front, self.profile, options, entry, args)

    def _drawn(self, entry: str, args: Args, options: RunOptions) -> Args:
        """Return the arguments with hard data where that is asked for."""
        if not isinstance(args, Mapping) or not any(isinstance(v, Redraw) for v in args.values()):
            return args
        from ptosim.launch.hard import drawn  # most runs have normal data

        resolved = self.front.resolved
        launched = peer_functions(resolved, resolved.functions[entry])
        return drawn(launched, args, options.inputs, options.seed)

    def _blocks(self, args: Args) -> int:
        """Return how many blocks are launched where nobody says it: as many as the launch of a
        C++ file asks for, else one."""
        asked = self.front.resolved.blocks
        if asked == COMPUTED:
            return self._computed(args)
        if isinstance(asked, str):
            given = args.get(asked) if isinstance(args, Mapping) else None
            given = self.front.resolved.defaults.get(asked) if given is None else given
            asked = None if given is None else _whole(asked, given)
        return 1 if asked is None else asked

    def _computed(self, args: Args) -> int:
        """Return how many blocks a launch wrapper in C++ asks for, which computes it. Raises
        UsageError where the scalars do not say it."""
        from ptosim.language.cpp.reader import launched_blocks

        front = self.front
        known = {**front.resolved.defaults, **(args if isinstance(args, Mapping) else {})}
        scalars = {n: v for n, v in known.items() if isinstance(v, Real)}
        simulator = {"__CPU_SIM": "1"} if self.profile.name == "cpu" else {}
        macros = {**simulator, **(front.defines or {})}
        found = launched_blocks(front.source, front.target, front.entry, macros, scalars)
        if found is None:
            cure = "give --block-num N, or the numbers that say it: --arg n=3"
            raise UsageError("the launch wrapper computes its number of blocks", help=cure)
        return found

    def _launched(
        self, entry: str, args: Args, options: RunOptions, observers: Sequence[Any]
    ) -> Result:
        """Execute blocks independently where that is worth trying and holds, else in order."""
        why = ""
        if in_turn(options, observers) and may_repeat(self.front, entry):
            from ptosim.launch import in_parts  # of long runs

            known = self.__dict__.setdefault("_known", in_parts.Known())
            result = in_parts.attempt(self.front, self.profile, options, entry, args, known)
            if result is not None:
                return result
        if wants(options, observers):
            from ptosim.launch.parallel import attempt  # brings processes and the laws of time

            outcome = attempt(self.front, self.profile, options, entry, args)
            if isinstance(outcome, Result):
                return outcome
            why = outcome if options.jobs > 1 else ""
        launch = self._launch(entry, args, options)
        result = launch.run(observers)
        if not observers:  # which may look at the machine afterwards
            launch.release()
        result.in_order = why
        return result

    def expected(self) -> dict[str, tuple[Any, Tolerance]]:
        """Return what the sidecar expects of a run with its own arguments: values and tolerance by
        output."""
        return kept_expectations(self.sidecar) if self.sidecar is not None else {}

    def cost(
        self,
        *,
        target: str | None = None,
        entry: str | None = None,
        args: Args = None,
        block_num: int | None = None,
        what_if: Mapping[str, float] | None = None,
        max_instructions: int | None = None,
        max_seconds: float | None = None,
        max_memory: int | None = None,
        ranks: int = 1,
        costs: Costs = None,
        each_block: bool = False,
        steady: bool = True,
        start: str = "warm",
    ) -> CostReport:
        """Return what an entry costs, without values: only scalars that decide a path, a trip
        count or a shape are needed. `what_if` changes figures of the target by name; `costs` is a
        file of a board's own figures (`ptosim calibrate`). Of blocks that do the same one is timed
        for all, unless `each_block` is to be seen. Of a loop that repeats one period is executed,
        with the same cycles; without `steady` every round. `start`: whether L2 is `warm` (a loop of
        launches, of which it keeps what fits) or `cold`; this decides times, not cycles.

        Raises UsageError for an argument that is needed and not given, or an unknown figure,
        ProgramError if the program cannot be placed (or is wrong for `target`), LimitError beyond
        one of the limits, as `run` does.
        """
        from ptosim.launch.cost import cost_of  # brings the laws of time

        block_num = self._blocks(args) if block_num is None else block_num
        options = RunOptions(block_num=block_num, max_instructions=max_instructions, ranks=ranks)
        with within(Limits(max_instructions, max_seconds, max_memory)):
            program = self.on_target(target)
            name = program.entry(entry)
            return cost_of(
                program.front, program.profile, name, args, options, what_if, costs,
                each_block=each_block, steady=steady, start=start,
            )  # fmt: skip

    def on_target(self, target: str | None) -> Self:
        """Return the program for a target: itself, or checked anew. Raises ProgramError if the
        other target rejects it."""
        front = self.front
        names = TargetName(front.target, None), TargetName(front.target, front.chip)
        if target is None or check_target_word(target) in names:
            return self
        sync = front.sync if "sync" in front.settings.given else None
        asked = FrontOptions(
            target,
            front.level,
            sync,
            front.compat,
            front.entry,
            legacy=front.legacy,
            planner=front.settings.planner,
            defines=front.defines,
        )
        other = run_frontend(front.source, asked)
        return self.of(other, self.profile.name, sidecar=self.sidecar)


def _whole(name: str, given: Any) -> int:
    """The number of blocks that an argument says. Raises UsageError if it is none."""
    try:
        return operator.index(given)
    except TypeError:
        raise UsageError(f"`{name}` says how many blocks run: {given} is no whole number") from None
