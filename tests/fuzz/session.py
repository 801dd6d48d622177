"""A session of trying: which case, which commands, and what is counted."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from ptosim.ground.isa.rows import isa
from tests.fuzz.case import Case, Finding
from tests.fuzz.commands import COMMANDS, EXECUTING, OTHER, READING, entries, operations, outcome
from tests.fuzz.corpus import Seed
from tests.fuzz.differential import case_of, chosen
from tests.fuzz.files import RUNNERS
from tests.fuzz.generated import generated
from tests.fuzz.kinds import SUFFIXES, made
from tests.fuzz.limits import Memory, in_use
from tests.fuzz.minimise import minimised
from tests.fuzz.mutations import mutated, nudged, thinned
from tests.fuzz.slices import sliced

EXECUTED = (0, 1, 4)
LONG = 1500
"""Characters of a text of which only some lines are kept, so that many are tried."""
OTHER_FILES = 0.12
"""Share of inputs that are no programs."""
WHOLE = 0.01
"""Share of the programs that are a shipped one, whole or thinned: one takes as long as fifty others."""
GENERATED = 0.1
NUDGED = 0.5
EXECUTING_SEEDS = 0.25
"""Share of the texts that are made to be executed: one takes as long as four others."""


class Shares(NamedTuple):
    """Shares of the programs that can be read on which these are tried: the printer, a command that
    executes, another command; and of those that are refused on which a command is tried that
    reads."""

    forms: float
    runs: float
    commands: float
    refused: float


AT_RANDOM = Shares(0.15, 0.45, 0.12, 0.015)
EXAMINED = Shares(0.5, 1, 1, 0.03)


@dataclass
class Session:
    """What was tried and found so far. `patience` is the seconds for making one finding shorter."""

    seeds: list[Seed]
    rng: Random
    out: Path
    patience: float
    work: Path
    programs: int = 0
    parses: int = 0
    executes: int = 0
    inputs: Counter[str] = field(default_factory=Counter)
    covered: set[str] = field(default_factory=set)
    executed: set[str] = field(default_factory=set)
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    found: dict[tuple[str, str], Finding] = field(default_factory=dict)
    times: Counter[tuple[str, str]] = field(default_factory=Counter)
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self._texts = [seed.text for seed in self.seeds]
        self._kinds = [[s for s in self.seeds if s.executes is wanted] for wanted in (False, True)]
        self._weights = [1 / (300 + len(seed.text)) for seed in self.seeds]
        self._executing, self._other_commands = tuple(EXECUTING), (*EXECUTING, *OTHER)
        self.out.mkdir(parents=True, exist_ok=True)

    # -- cases ------------------------------------------------------------------------------------

    def step(self, kind: str | None = None) -> None:
        """Try one more input, of a kind of files where one is named."""
        if kind is not None or self.rng.random() < OTHER_FILES:
            self._other(made(self.rng, kind))
        else:
            self._program(self._text())

    def compare(self) -> None:
        """Execute one more program in several ways that must do the same; what cannot be executed
        does not count as an input."""
        case = case_of(self.rng, self._text(), self.seeds)
        first, second = chosen(case, self.rng)
        if self._run(first, case) in (0, None):
            self.inputs["program"] += 1
            self._run(second, case)

    def examine(self, case: Case) -> None:
        """Try a case of a sweep; a program with commands that execute it and others wherever it can
        be read."""
        if case.kind == "program":
            self._program(case, EXAMINED)
        else:
            self._other(case)

    def try_all(self, case: Case) -> None:
        """Try a program with every command."""
        self.inputs["program"] += 1
        self.programs += 1
        for command in COMMANDS:
            self._run(command, case)

    def _text(self) -> Case:
        """A changed program: a generated one, a few operations of a shipped one, or all of it; by
        changes after which most still run, or by any."""
        rng, kind = self.rng, self.rng.random()
        change = nudged if rng.random() < NUDGED else mutated
        if kind < GENERATED:
            text, target = generated(rng)
            return Case(change(text, rng, self._texts).encode("utf-8", "replace"), target=target)
        if kind < GENERATED + WHOLE:
            seed = rng.choices(self.seeds, self._weights)[0]
            text = seed.text
            if change is mutated and len(text) > LONG:
                text = thinned(text, rng, LONG / len(text))
        else:
            kinds = self._kinds[rng.random() < EXECUTING_SEEDS] or self.seeds
            seed = rng.choice(kinds)
            text = sliced(seed.text, rng)
        text = change(text, rng, self._texts)
        entry = rng.choice(names) if len(names := entries(text)) > 1 else None
        content = text.encode("utf-8", "replace")
        return Case(content, "program", rng.choice(seed.targets), seed.compat, entry)

    # -- trying -----------------------------------------------------------------------------------

    def _program(self, case: Case, often: Shares = AT_RANDOM) -> None:
        """Run the commands on one text; those that execute only if the text is worth it."""
        self.inputs["program"] += 1
        self.programs += 1
        verdict, names = operations(case, self.work)
        verdict = self._counted("check", case, verdict)
        chance = self.rng.random
        if names is not None:
            self.parses += 1
            self.covered |= names
            if chance() < often.forms:
                self._run("fmt", case)
        if verdict not in (0, 1):
            if chance() < often.refused:
                self._run(self.rng.choice(READING), case)
            if chance() < often.refused:
                self._run(self.rng.choice(self._other_commands), case)
            return
        if "func.func @" in case.text and chance() < often.runs:
            code = self._run(self.rng.choice(self._executing), case)
            if code in EXECUTED:
                self.executes += 1
                self.executed |= names or set()
        if chance() < often.commands:
            self._run(self.rng.choice(self._other_commands), case)

    def _other(self, case: Case) -> None:
        self.inputs[case.kind] += 1
        names = tuple(RUNNERS[case.kind])
        self._run(self.rng.choice(names), case)

    def _run(self, command: str, case: Case) -> int | None:
        return self._counted(command, case, outcome(command, case, self.work))

    def _counted(self, command: str, case: Case, result: int | Finding) -> int | None:
        """Note how a command ended; returns its exit code, None for a finding."""
        peak = self.memory.exceeded()
        if isinstance(result, int) and peak:
            result = Finding(command, "memory", command, f"{peak / 2**20:.0f} MiB in use")
        if isinstance(result, int):
            self.codes[f"{case.kind}: {command}", result] += 1
            return result
        self.times[result.key] += 1
        if result.key not in self.found:
            self.found[result.key] = result
            self._write(result, case)
        return None

    # -- findings ---------------------------------------------------------------------------------

    def _write(self, finding: Finding, case: Case) -> None:
        """Write a finding to files of its own: as it was found, then as short as it can be made."""

        def is_same(content: bytes) -> bool:
            again = outcome(finding.command, replace(case, content=content), self.work)
            return isinstance(again, Finding) and again.key == finding.key

        path = self.out / f"{len(self.found):03}{SUFFIXES[case.kind]}"
        how = " ".join((finding.command, *case.words, *((case.entry,) if case.entry else ())))
        told = f"{path}: {case.kind}: {how}: {finding.kind} at {finding.place}"
        path.with_suffix(".found").write_bytes(case.content)
        path.with_suffix(".txt").write_text(f"{told}\n{finding.told}", encoding="utf-8")
        print(told, flush=True)
        slow = finding.kind in ("Endless", "memory")
        content = case.content if slow else minimised(case.content, is_same, self.patience)
        path.write_bytes(content)

    def report(self, seconds: float) -> None:
        """Print the figures."""
        with contextlib.suppress(OSError):
            print("processor   ", *Path("/proc/loadavg").read_text().split()[:1])
        known = set(isa().names())
        count, share = sum(self.inputs.values()), 100 / max(self.programs, 1)
        print(f"memory      {in_use('VmRSS:') / 2**20:.0f} MiB in use")
        print(f"inputs      {count} in {seconds:.0f} s, {count / max(seconds, 1):.0f} a second")
        kinds = (f"{kind} {number}" for kind, number in self.inputs.most_common())
        print(f"            {', '.join(kinds)}")
        print(f"parse       {self.parses * share:.1f} % of the programs")
        print(f"execute     {self.executes * share:.1f} % of the programs")
        print(
            f"operations  {len(self.covered & known)} of {len(known)} in texts that parse, ", end=""
        )
        print(f"{len(self.executed & known)} in programs that were executed")
        commands = sorted({name for name, _ in self.codes})
        for command in commands:
            codes = sorted((c, n) for (name, c), n in self.codes.items() if name == command)
            print(f"{command:32} {', '.join(f'exit {c}: {n}' for c, n in codes)}")
        print(f"findings    {len(self.found)}")
        for key, times in self.times.most_common():
            print(f"  {times:6} x {' at '.join(key)}")
