"""`ptosim selftest`: is this installation whole, and do the shipped programs give what they
should?"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict

from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.rows import TARGETS, isa
from ptosim.ground.isa.schema import Status
from ptosim.ground.progress import each
from ptosim.ground.records import dataclass, replace
from ptosim.launch.compare import Choices, compare
from ptosim.launch.sources import shipped_names
from ptosim.shell.command import command
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Line, Report, one_section


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    passed: bool
    detail: str
    seconds: float


@command("selftest", forms=("text", "json"))
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Run every check; exit code 1 if one fails."""
    checks, names = [_data()], shipped_names()
    with terminal.busy("running what is shipped", len(names), "programs") as progress:
        for name in each(progress, names):
            choices = Choices(f"@{name}").completed()
            targets = choices.sidecar.targets if choices.sidecar is not None else ()
            checks.extend(_program(name, replace(choices, target=t)) for t in targets or (None,))
    return one_section(
        lambda _: _lines(checks, quiet=terminal.quiet),
        lambda: {"failed": sum(not c.passed for c in checks), "checks": list(map(asdict, checks))},
        exit_code=0 if all(c.passed for c in checks) else 1,
    )


def _data() -> Check:
    start = time.perf_counter()
    from ptosim.ops.base import functions
    from ptosim.ops.base.functions import KERNELS, VALUES

    functions.load_all()

    names = isa().names()
    known = {n.partition(":")[0] for n in (*KERNELS, *VALUES)}
    missing = [
        n
        for n in names
        if (d := isa().get(n)) is not None
        and d.form == "dps"
        and Status.EXACT in d.status.values()
        and n not in known
    ]
    detail = f"{len(names)} operations, {len(TARGETS)} targets"
    if missing:
        detail = f"exact without a function: {', '.join(missing)}"
    return Check("ISA data", not missing, detail, time.perf_counter() - start)


def _program(name: str, choices: Choices) -> Check:
    start = time.perf_counter()
    title = f"@{name}" + (f" on {choices.target}" if choices.target else "")
    wanted = choices.sidecar.exit_code if choices.sidecar is not None else 0
    try:
        code, detail = _execute(choices)
    except ProgramError as problem:
        code, detail = problem.exit_code, ", ".join(sorted({d.code for d in problem.diagnostics}))
    except PtosimError as problem:
        code, detail = problem.exit_code, str(problem)
    return Check(title, code == wanted, detail, time.perf_counter() - start)


def _execute(choices: Choices) -> tuple[int, str]:
    """Return the exit code that `run` would have, and what to say."""
    result = choices.program().run(
        choices.arguments(), entry=choices.entry, **choices.run_options()
    )
    expected = choices.expected()
    for name, wanted in expected.items():
        verdict = compare(name, result.outputs[name], *wanted)
        if not verdict.passed:
            return 1, f"differs: {name} in {verdict.mismatches} of {verdict.count} elements"
    errors = sorted({d.code for d in result.findings if d.is_error})
    if errors:
        return 1, ", ".join(errors)
    return 0, f"{len(expected)} outputs as expected" if expected else "runs"


def _lines(checks: list[Check], *, quiet: bool) -> Iterator[Line]:
    width = max(len(c.name) for c in checks)
    for c in checks:
        if not quiet or not c.passed:
            word, seconds = "ok  " if c.passed else "FAIL", f"{1000 * c.seconds:6.0f} ms"
            yield Line(f"{word} {c.name:{width}}  {seconds}  {c.detail}", width + 18)
    yield Line(f"{sum(c.passed for c in checks)} of {len(checks)} checks passed")
