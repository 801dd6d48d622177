"""`python -m tests.fuzz --seconds N --seed S [--out FOLDER]`: changed programs through the commands.

Every finding is one that must not be: a traceback, an exit code that no page of the manual names, a
printed form that is not read back, a case without an end. It is written to a file of its own, as
short as it can be made; exit code 1 says that there is one."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from ptosim.ground.isa.rows import isa
from tests.fuzz.commands import COMMANDS, Case, Finding, entries, outcome, parsed
from tests.fuzz.corpus import Seed, seeds
from tests.fuzz.minimise import minimised
from tests.fuzz.mutations import mutated, thinned

MEMORY = 6 * 2**30
"""Bytes of address space: a program that asks for more gets an error, not the machine."""
EXECUTED = (0, 1, 4)
LONG = 4000
"""Characters of a text of which only some lines are kept, so that many are tried."""


@dataclass
class Session:
    """What was tried and found so far."""

    out: Path
    patience: float  # seconds for making one finding shorter
    inputs: int = 0
    parses: int = 0
    executes: int = 0
    covered: set[str] = field(default_factory=set)
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    found: dict[tuple[str, str], Finding] = field(default_factory=dict)
    times: Counter[tuple[str, str]] = field(default_factory=Counter)

    def attempt(self, case: Case, rng: Random) -> None:
        """Run the commands on one text; those that execute only if the text is worth it."""
        self.inputs += 1
        self._note_operations(case.text)
        verdict = self._run("check", case)
        self._run("fmt", case)
        if verdict in (0, 1) or rng.random() < 0.03:
            codes = [self._run(c, case) for c in COMMANDS if c not in ("check", "fmt")]
            self.executes += any(code in EXECUTED for code in codes[:2])

    def _note_operations(self, text: str) -> None:
        try:
            module = parsed(text)
        except Exception:
            return  # the check below tells
        if module is not None:
            self.parses += 1
            self.covered |= {op.name for op in module.walk()}

    def _run(self, command: str, case: Case) -> int | None:
        result = outcome(command, case, self.out)
        if isinstance(result, int):
            self.codes[command, result] += 1
            return result
        self.times[result.key] += 1
        if result.key not in self.found:
            self.found[result.key] = result
            self._write(result, case)
        return None

    def _write(self, finding: Finding, case: Case) -> None:
        def is_same(text: str) -> bool:
            again = outcome(finding.command, replace(case, text=text), self.out)
            return isinstance(again, Finding) and again.key == finding.key

        text = minimised(case.text, is_same, self.patience)
        path = self.out / f"{len(self.found):03}.pto"
        path.write_bytes(text.encode("utf-8", "replace"))
        how = " ".join((finding.command, *case.words))
        path.with_suffix(".txt").write_text(f"{how}\n{finding.told}", encoding="utf-8")
        print(f"{path}: {how}: {finding.kind} at {finding.place}", flush=True)

    def report(self, seconds: float) -> None:
        """Print the figures."""
        known = set(isa().names())
        share = 100 / max(self.inputs, 1)
        print(f"inputs      {self.inputs} in {seconds:.0f} s")
        print(f"parse       {self.parses * share:.0f} %")
        print(f"execute     {self.executes * share:.0f} %")
        print(f"operations  {len(self.covered & known)} of {len(known)} in texts that parse")
        for command in COMMANDS:
            codes = sorted((c, n) for (name, c), n in self.codes.items() if name == command)
            print(f"{command:16} {', '.join(f'exit {c}: {n}' for c, n in codes)}")
        print(f"findings    {len(self.found)}")
        for key, times in self.times.most_common():
            print(f"  {times:6} x {' at '.join(key)}")


def changed(seed: Seed, rng: Random, others: list[str]) -> Case:
    """Return a changed text of a seed for one of its targets."""
    text = seed.text
    if len(text) > LONG:
        text = thinned(text, rng, LONG / len(text))
    text = mutated(text, rng, others)
    entry = rng.choice(names) if len(names := entries(text)) > 1 else None
    return Case(text, rng.choice(seed.targets), seed.compat, entry)


def main() -> int:
    """Change and try until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=10**9, help="stop after so many texts")
    parser.add_argument("--out", type=Path, help="folder of findings; default: a new one")
    parser.add_argument("--only", default="", help="seeds with this in their name")
    parser.add_argument("--patience", type=float, default=30, help="seconds to make one shorter")
    options = parser.parse_args()
    os.environ["PTOSIM_TRACEBACK"] = "1"  # an internal error is raised, with its place
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    out = options.out or Path(tempfile.mkdtemp(prefix="ptosim-fuzz-"))
    out.mkdir(parents=True, exist_ok=True)
    rng = Random(options.seed)
    known = [s for s in seeds() if options.only in s.name]
    texts = [s.text for s in known]
    session = Session(out, options.patience)
    start = time.monotonic()
    while time.monotonic() - start < options.seconds and session.inputs < options.inputs:
        session.attempt(changed(rng.choice(known), rng, texts), rng)
    session.report(time.monotonic() - start)
    return 1 if session.found else 0


sys.exit(main())
