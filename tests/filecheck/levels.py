"""`python -m tests.filecheck.levels`: of all texts of the tree what works, level by level.

A text is a shipped program, a text of `tests/regress`, or a section of `tests/filecheck/accept` and
`micro` (for each of its targets). Counted are texts that are accepted; of these those whose entries
all run, all are costed, whose vector operations `expand` writes out (on A5; in parentheses
operations), and whose memory `fmt --plan` plans (texts without addresses). What is left is listed by
its cause, most frequent first. Takes minutes; `--only WORD` takes paths with it."""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ptosim.debug.program import Program
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import PtosimError, UnsizedError, UsageError
from ptosim.ground.isa.schema import dtypes
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.machine.pages import argument_dtype
from ptosim.ops.lower.program import expand
from tests.filecheck.conftest import sections
from tests.support.paths import TREE

STEPS = ("accepted", "executed", "costed", "expanded", "planned")
LEVELS = {"simt": "threads", "vmi": "logical vectors", "micro": "registers"}
LIMIT = 200_000
"""Instructions of a run."""
ELEMENTS = 1 << 16
FEW = 1 << 11
"""Elements of arrays where some are in a memory of the core."""


class Text(NamedTuple):
    """A text with how it is read."""

    name: str
    source: Source
    target: str | None
    options: dict[str, str]


def texts(word: str) -> Iterator[Text]:
    """Every text of the tree whose path has a word."""
    for folder in ("programs", "tests/regress", "tests/filecheck/accept", "tests/filecheck/micro"):
        for path in sorted((TREE / folder).rglob("*.pto")):
            name = path.relative_to(TREE).as_posix()
            if word in name and not path.name.startswith("reject"):
                yield from _texts_of(name, path)


def _texts_of(name: str, path: Path) -> Iterator[Text]:
    text = path.read_text()
    if "filecheck" not in name:
        yield Text(name, Source(str(path), text), None, {})
        return
    for number, (section, options) in enumerate(sections(text)):
        for target in options["target"].split() or [None]:
            label = f"{name}#{number}"
            yield Text(label, Source(label, section), target, options)


def asked(text: Text) -> FrontOptions:
    """How a text is read."""
    level = text.options.get("level")
    return FrontOptions(
        target=text.target,
        level=int(level) if level else None,
        sync=text.options.get("sync"),
        compat=text.options.get("compat"),
        legacy=text.options.get("legacy") == "true",
        dump=text.options.get("dump") == "true",
    )


def level_of(front: Front) -> str:
    """What a text is about: the lowest level that it has operations of, beside tiles or not."""
    families = {op.definition.family for op in front.resolved.ops if op.definition is not None}
    found = [word for key, word in LEVELS.items() if any(key in f for f in families)]
    is_mixed = len(found) == 1 and any("tile" in o.kinds for op in front.resolved.ops
                                       if op.variant is not None and op.has("transfers")
                                       for o in op.variant.operands)  # fmt: skip
    return found[0] + (" and tiles" if is_mixed else "") if found else "tiles"


def cause(problem: BaseException) -> str:
    """The kind of a failure: the code of the first finding, or its words without names."""
    if isinstance(problem, ProgramError) and problem.diagnostics:
        first = next((d for d in problem.diagnostics if d.is_error), problem.diagnostics[0])
        return f"{first.code} {re.sub(r'[0-9]+|`[^`]*`|%[^ ]*', '…', first.message)[:70]}"
    return re.sub(r"`[^`]*`|@?%?[0-9]+", "…", f"{type(problem).__name__}: {problem}")[:80]


def outcome(step: Callable[[], object]) -> str | None:
    """Why a step is not done; None if it is."""
    try:
        step()
    except PtosimError as problem:
        return cause(problem)
    except Exception as problem:  # a fault of ours, which the table is to show
        return f"internal: {type(problem).__name__}: {problem}"[:80]
    return None


def ran(program: Program) -> None:
    """Run every entry: one half of a pair with a stub for the other; numbers are made up, or, where
    those are no places, 0."""
    for entry in program.entries:
        options = {"entry": entry, "uninit": "zero", "sanitize": "none", "max_instructions": LIMIT}
        numbers = [a.name for a in program.signature(entry) if a.kind == "scalar"]
        stub = {**options, "peer": "stub"}
        zeros = dict.fromkeys(numbers, 0)
        tries = [({}, options), ({}, stub), (zeros, options), (zeros, stub)]
        problems: list[Exception] = []
        for args, given in tries:
            try:
                _run(program, args, given)
                break
            except PtosimError as problem:
                problems.append(problem)
        else:
            raise problems[0]


def _run(program: Program, args: dict[str, Any], options: dict[str, Any]) -> None:
    """Run an entry; arrays that neither views nor accesses size have ELEMENTS, or FEW."""
    try:
        program.run(args, **options)
    except UnsizedError:
        asked = [a for a in program.signature(options["entry"]) if a.kind in ("ptr", "memref")]
        arrays = {a.name: np.zeros(ELEMENTS, argument_dtype(dtypes()[a.dtype])) for a in asked}
        arrays = {**args, **arrays}
        try:
            program.run(arrays, **options)
        except UsageError as problem:
            if "has no room for" not in str(problem):
                raise
            few = {n: a[:FEW] if isinstance(a, np.ndarray) else a for n, a in arrays.items()}
            program.run(few, **options)


def costed(program: Program) -> None:
    """Estimate every entry, with 1 for the scalars that time depends on."""
    for entry in program.entries:
        try:
            program.cost(entry=entry)
        except UsageError:
            scalars = [a for a in program.signature(entry) if a.kind == "scalar"]
            program.cost(entry=entry, args={a.name: 1 for a in scalars})


class Table:
    """The counts of each level, and what is left."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.left: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, text: Text) -> None:
        """Take a text through the steps."""
        front = run_frontend(text.source, asked(text))
        level = level_of(front)
        count = self.counts[level]
        count["texts"] += 1
        if front.sink.is_rejected:
            self.left["accepted"][next(d.code for d in front.sink if d.is_rejection)] += 1
            return
        count["accepted"] += 1
        program = Program.of(front, "hw")
        self._note(count, "executed", outcome(lambda: ran(program)))
        self._note(count, "costed", outcome(lambda: costed(program)))
        if front.target == "a5" or not front.resolved.settings.names_target:
            self._expand(count, text)
        if front.resolved.settings.level != 3:
            count["may be planned"] += 1
            plan = lambda: rewritten(text.source, asked(text), plan=True, insert_sync=False)  # noqa: E731
            self._note(count, "planned", outcome(plan))

    def _note(self, count: Counter[str], step: str, why: str | None) -> None:
        count[step] += why is None
        if why is not None:
            self.left[step][why] += 1

    def _expand(self, count: Counter[str], text: Text) -> None:
        count["may be expanded"] += 1
        found = None

        def step() -> None:
            nonlocal found
            found = expand(text.source, text.target or "a5", text.options.get("compat"))

        why = outcome(step)
        if found is None:
            self._note(count, "expanded", why)
            return
        count["operations"] += len(found.stages)
        count["all operations"] += len(found.stages) + len(found.kept)
        count["expanded"] += not found.kept
        for kept in found.kept:
            self.left["expanded"][f"{kept.name}: {kept.reason}"[:90]] += 1

    def lines(self) -> Iterator[str]:
        """The table, and what is left."""
        heads = ("texts", "accepted", "executed", "costed", "expanded", "(operations)", "planned")
        yield f"{'level':28}" + "".join(f"{h:>14}" for h in heads)
        for level, c in sorted(self.counts.items()):
            cells = (
                c["texts"], c["accepted"], c["executed"], c["costed"],
                f"{c['expanded']}/{c['may be expanded']}",
                f"({c['operations']}/{c['all operations']})",
                f"{c['planned']}/{c['may be planned']}",
            )  # fmt: skip
            yield f"{level:28}" + "".join(f"{cell!s:>14}" for cell in cells)
        for step in STEPS:
            if self.left[step]:
                yield f"\nnot {step}:"
                yield from (f"{n:6}  {why}" for why, n in self.left[step].most_common(25))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.filecheck.levels", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="texts with it in their path")
    table = Table()
    for text in texts(parser.parse_args().only):
        table.add(text)
    print("\n".join(table.lines()))


if __name__ == "__main__":
    main()
