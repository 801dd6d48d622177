"""Ways to execute one program that must give the same bytes, findings and faults: each is tried beside
a run for values alone, and what differs is a finding.

With time; one instruction after the other; as many rounds at once as can be; effects when pipes retire
them; blocks in two processes; in steps of the debugger, back and forth; printed, in the quoted form,
and expanded; under the kernels that OpenBLAS has for another processor."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

import ptosim
from ptosim.engine.batch import batches, tile_loops
from ptosim.ground.diagnostics.model import ProgramError, Sink
from ptosim.ground.errors import LimitError, PtosimError
from ptosim.ground.limits import Limits
from ptosim.ground.source import Source
from ptosim.language.rewrite.requoted import requoted
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.launch import parallel
from ptosim.launch.array_files import parse_spec
from ptosim.ops.lower.program import expand
from tests.engine import loops
from tests.fuzz.case import Case, Different
from tests.fuzz.corpus import Seed
from tests.fuzz.generated import generated
from tests.fuzz.mutations import nudged

MOST = 4000
"""Instructions of a run."""
CORE = "Sandybridge"
"""Its kernels add four numbers of f64 at once, those of a processor of today eight or sixteen."""


class Outcome(NamedTuple):
    """How a run ended; its outputs and which of their elements have values; codes of what was found,
    None where nobody looked. Codes or words of what ended it, if it did not come to its end."""

    ended: str
    outputs: Mapping[str, Any] = {}
    defined: Mapping[str, Any] = {}
    found: Counter[str] | None = None
    why: Any = None

    def __str__(self) -> str:
        return self.ended if self.why is None else f"{self.ended} {self.why}"[:70]


class Program:
    """A program with arguments, and how its runs end. Raises ProgramError for one that is refused."""

    def __init__(self, case: Case) -> None:
        self.case, self.source = case, Source("k.pto", case.text)
        self.rng = Random(zlib.crc32(case.content))
        self.loaded = ptosim.load(case.text, target=case.target, compat=case.compat)
        size = 57344 if "131072" in case.text else 4096
        self.args = {
            arg.name: self._array(arg.dtype, size) if arg.kind == "ptr" else self._scalar(arg.dtype)
            for arg in self.loaded.signature(case.entry)
            if arg.kind in ("ptr", "scalar")
        }
        self.plain = self.outcome()

    def _array(self, dtype: str, size: int) -> Any:
        kind = "randn" if dtype.startswith(("f", "bf")) else "randint"
        return parse_spec(f"{kind}:{dtype}:{size}:{self.rng.randrange(99)}", Path())

    def _scalar(self, dtype: str) -> Any:
        return self.rng.choice((1, 2, 9, 20, 33)) if "i" in dtype else 1.5

    def outcome(self, loaded: Any = None, **how: Any) -> Outcome:
        """How a run ends. Raises LimitError for one that is too long to be compared."""
        given = {"timing": False, "max_instructions": MOST, "entry": self.case.entry, **how}
        try:
            result = (loaded or self.loaded).run(self.args, **given)
        except LimitError:
            raise
        except ProgramError as stopped:
            return Outcome(
                "stopped", why=sorted({d.code for d in stopped.diagnostics if d.is_error})
            )
        except PtosimError as refused:
            return Outcome("refused", why=str(refused))
        found = Counter(d.code for d in result.findings if d.severity.word != "note")
        looked = found if given.get("sanitize") != "none" else None
        return Outcome("ended", result.outputs.copy(), result.definedness, looked)

    def rewritten(self, text: str) -> Outcome:
        """How another text ends that means the same."""
        of_it = ptosim.load(text, target=self.loaded.target, compat=self.case.compat)
        return self.outcome(of_it)._replace(found=None)


def compare(first: Outcome, other: Outcome) -> None:
    """Raise Different unless two runs ended in the same way, with the same bytes where both have
    values, and the same findings where both looked."""
    if (first.ended, first.why) != (other.ended, other.why):
        raise Different(f"{first}, then {other}")
    if None not in (first.found, other.found) and first.found != other.found:
        raise Different(f"finds {dict(first.found or {})}, then {dict(other.found or {})}")
    if set(first.outputs) != set(other.outputs):
        raise Different(f"outputs {sorted(first.outputs)}, then {sorted(other.outputs)}")
    for name, array in first.outputs.items():
        one, two = np.asarray(array), np.asarray(other.outputs[name])
        if one.shape != two.shape or one.dtype != two.dtype:
            raise Different(f"an output is {one.dtype} {one.shape}, then {two.dtype} {two.shape}")
        mask = np.ones(one.shape, bool)
        for defined in (first.defined.get(name), other.defined.get(name)):
            if defined is not None and np.shape(defined) == one.shape:
                mask &= defined
        if one[mask].tobytes() != two[mask].tobytes():
            raise Different("other bytes in an output")


# -- ways to execute -------------------------------------------------------------------------------


@contextlib.contextmanager
def _set(*given: tuple[Any, str, Any]) -> Iterator[None]:
    """Other values of names of modules, for a while."""
    before = [(module, name, getattr(module, name)) for module, name, _ in given]
    for module, name, value in given:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


class _Looks:
    """One who looks at every instruction: they are executed one by one then."""

    def on_issue(self, *_: Any) -> None:
        """Nothing is done with it."""


def _at_once(program: Program) -> Outcome:
    with _set((batches, "FEWEST", 2), (batches, "WORTH", 0), (tile_loops, "FEWEST", 1)):
        found = program.outcome(sanitize="none")
    # What stopped it is told with what the sanitizers had found until then.
    return found._replace(why=program.plain.why) if found.ended == "stopped" else found


def _retired(program: Program) -> Outcome | None:
    """Of a program without races only: what one reads depends on when."""
    found = program.plain.found
    return None if found is None or found else program.outcome(commit="retire")


def _stepped(program: Program) -> Outcome:
    """Some steps, some back, and then to the end."""
    session = program.loaded.debug(program.args, entry=program.case.entry, timing=False)
    session.limits = Limits(instructions=4 * MOST)
    for _ in range(4):
        session.stepi(program.rng.randrange(1, 9))
        session.reverse_stepi(program.rng.randrange(1, 7))
    while (stop := session.continue_()).reason not in ("end", "trap", "deadlock"):
        pass
    if stop.reason != "end":
        return Outcome("stopped", why=program.plain.why)
    return Outcome("ended", {n: np.array(a) for n, a in session.outputs().items()})


def _in_blocks(program: Program) -> Outcome:
    """Three blocks in two processes beside the same in one."""
    alone = program.outcome(block_num=3)
    with _set((parallel, "LEAST_SECONDS", 1e-9), (parallel, "LEAST_SHARE", -1.0)):
        compare(alone, program.outcome(block_num=3, jobs=2))
    return program.plain


def _expanded(program: Program) -> Outcome | None:
    """Of a program that comes to its end: a load of which nobody takes the result is not written."""
    if program.plain.ended != "ended":
        return None
    try:
        text = expand(program.source, program.loaded.target, program.case.compat).text
    except PtosimError:
        return None  # for another target, or not written as vector instructions
    found = program.rewritten(text)
    # A tile that is an argument is an output if an operation may write it, which pointers hide.
    both = {n: a for n, a in program.plain.outputs.items() if n not in found.outputs}
    return found._replace(outputs={**both, **found.outputs})


def _elsewhere(program: Program) -> Outcome:
    pipe = _worker()
    pipe.send(program.case)
    return pipe.recv()


def _serve(pipe: Any) -> None:
    """Run what is sent, in a process that has other kernels of OpenBLAS."""
    while True:
        case = pipe.recv()
        try:
            pipe.send(Program(case).plain)
        except Exception as problem:
            pipe.send(Outcome("broken", why=f"{type(problem).__name__}: {problem}"))


@lru_cache(maxsize=1)
def _worker() -> Any:
    """The pipe to a process under other kernels, which lives as long as this one."""
    ours, theirs = multiprocessing.Pipe()
    before = dict(os.environ)
    os.environ["OPENBLAS_CORETYPE"] = CORE
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(theirs,), daemon=True
    )
    process.start()
    os.environ.clear()
    os.environ.update(before)
    return ours


WAYS: dict[str, tuple[int, Callable[[Program], Outcome | None]]] = {
    "timed": (4, lambda p: p.outcome(timing=True)),
    "one by one": (4, lambda p: p.outcome(observers=[_Looks()])),
    "at once": (4, _at_once),
    "retired": (2, _retired),
    "stepped": (3, _stepped),
    "in blocks": (1, _in_blocks),
    "printed": (3, lambda p: p.rewritten(print_module(parse(p.source, Sink())))),
    "quoted": (
        3,
        lambda p: p.rewritten(requoted(p.source, "quoted", p.case.target, p.case.compat)),
    ),
    "expanded": (4, _expanded),
    "elsewhere": (2, _elsewhere),
}
"""How often a way is tried, and what it makes of a program; None where it says nothing of it."""


@lru_cache(maxsize=1)
def _program(case: Case) -> Program:
    return Program(case)


def same(way: str) -> Callable[[Case, Path], int]:
    """Return what tries a way on a case: 0 if nothing differs, else the exit code of what is refused."""

    def run(case: Case, folder: Path) -> int:
        try:
            program = _program(case)
            other = WAYS[way][1](program)
        except PtosimError as problem:
            return problem.exit_code
        if other is not None:
            compare(program.plain, other)
        return 0

    return run


RUNNERS = {f"same {way}": same(way) for way in WAYS}
"""What is done with programs in a session that compares."""


_CUBE = re.compile(r"pto\.(?:tmatmul|tgemv|mad)")


def chosen(case: Case, rng: Random) -> list[str]:
    """Two of the ways, those that take little time more often; another processor for products."""
    first, second = rng.choices(list(RUNNERS), [weight for weight, _ in WAYS.values()], k=2)
    return [first, "same elsewhere" if _CUBE.search(case.text) else second]


def case_of(rng: Random, other: Case, seeds: Sequence[Seed]) -> Case:
    """A program to be compared: one made at random, loops of many rounds made at random, one with a
    product, each as it is or changed; half of all are `other`."""
    kind = rng.randrange(8)
    if kind < 2:
        text, target = generated(rng)
    elif kind < 3:
        text, target = rng.choice((loops.module, loops.logical_module))(rng), "a5"
    elif kind < 4:
        seed = rng.choice([s for s in seeds if s.executes and _CUBE.search(s.text)])
        text, target = seed.text, rng.choice(seed.targets)
    else:
        return other
    if rng.random() < 0.5:
        text = nudged(text, rng, [text])
    return Case(text.encode("utf-8", "replace"), target=target)
