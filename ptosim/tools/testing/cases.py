"""The cases of programs: one for each target and each expectation that a sidecar keeps.

A program without expectations has one case for each target: it runs, and nothing is found. A
sidecar with an `exit_code` or `codes` says that the program is wrong on purpose: then that is
tested."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.debug.program import Program
from ptosim.ground.diagnostics.model import Diagnostic, ProgramError, Severity
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.files import write_file
from ptosim.ground.limits import current
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import KERNELS
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.launch.array_files import BROKEN, beside, in_file
from ptosim.launch.compare import Comparison, compare
from ptosim.launch.description import Sidecar, sidecar_of
from ptosim.launch.results import Result
from ptosim.launch.sources import read_source
from ptosim.tools.api import check_source
from ptosim.views.frames import plain, render_all

# The content of files of golden arrays, as `--update` writes it.

_MOST_NAME = 65_535
"""Bytes of a name in an archive."""


def npy_of(array: np.ndarray) -> bytes:
    """Return the content of a `.npy` file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def with_array(path: Path, name: str, array: np.ndarray) -> bytes:
    """Return the content of a `.npz` file with an array set. Whatever else is in it stays as it is,
    byte for byte: it may be what NumPy would execute, or has no name for. Raises UsageError if the
    file cannot be read, or the array cannot have that name, LimitError as reading an array does."""
    member = f"{name}.npy"
    if "\0" in member or len(member.encode()) > _MOST_NAME:
        raise UsageError(f"{path}: no array of an archive can have the name {name!a:.60}")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in _others(path, member):
            archive.writestr(info, content)
        new = zipfile.ZipInfo(member)  # without a time, so that the same array is the same file
        archive.writestr(new, npy_of(array), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _others(path: Path, member: str) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """What a file holds beside a member; nothing if there is no such file."""
    try:
        if not path.exists():
            return []
        with zipfile.ZipFile(path) as archive:
            infos = {i.filename: i for i in archive.infolist() if i.filename != member}
            current().reserve(sum(i.file_size for i in infos.values()), str(path))
            return [(info, archive.read(info)) for info in infos.values()]
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except BROKEN as problem:
        raise UsageError(
            f"{path} is not an .npz file that can be kept: {problem}",
            help="remove it, and `--update` makes a new one",
        ) from problem


WIDTH = 100


@dataclass(frozen=True, slots=True)
class Case:
    """A program on a target, and one of its outputs (None: that it runs, and what is found)."""

    path: Path
    target: str | None
    output: str | None
    sidecar: Sidecar

    @property
    def name(self) -> str:
        """The target and the output, as a test is named."""
        return f"{self.target or 'default'}-{self.output or 'run'}"

    def command(self, element: str = "") -> str:
        """Return the command that shows the run step by step, or where an element comes from."""
        word = "why" if element else "debug"
        words = ["ptosim", word, str(self.path), element, *self._target()]
        return " ".join(filter(None, words))

    def _target(self) -> list[str]:
        return [f"--target {self.target}"] if self.target else []


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a case passed and, if not, why, as text."""

    passed: bool
    text: str = ""
    next: str = ""
    """The command that looks into it."""


@dataclass(slots=True)
class _Ran:
    """What a run on a target left: a result, or what it ended with."""

    result: Result | None = None
    exit_code: int = 0
    findings: Sequence[Diagnostic] = ()
    problem: str = ""
    expected: dict[str, Any] = field(default_factory=dict)


def programs_in(paths: Iterable[Path]) -> list[Path]:
    """Return the programs with sidecars in folders, and those that are named, sorted. Raises
    UsageError for a name without a file, and for a program without a sidecar that is named."""
    found: set[Path] = set()
    for path in paths:
        if path.is_dir():
            kernels = (p for p in path.rglob("*") if p.suffix in KERNELS)
            found |= {p for p in kernels if p.with_suffix(".toml").is_file()}
        elif not path.is_file():
            raise UsageError(f"there is no file or folder {path}")
        elif not path.with_suffix(".toml").is_file():
            raise UsageError(
                f"{path} has no sidecar, so there is nothing to test",
                help=f"write {path.with_suffix('.toml').name} beside it: `ptosim help run`",
            )
        else:
            found.add(path)
    return sorted(found)


def without_sidecar(paths: Iterable[Path]) -> list[Path]:
    """Return the programs in folders that have no sidecar, sorted: nobody says what is right."""
    found = {
        p
        for path in paths
        if path.is_dir()
        for p in path.rglob("*.pto")
        if not p.with_suffix(".toml").is_file()
    }
    return sorted(found)


def cases_of(program: Path) -> list[Case]:
    """Return the cases of a program. Raises DescriptionError for a sidecar that is wrong."""
    sidecar = sidecar_of(program)
    if sidecar is None:
        return []
    outputs = list(sidecar.expect) if not sidecar.exit_code else []
    targets = sidecar.targets or (None,)
    return [Case(program, t, o, sidecar) for t in targets for o in outputs or (None,)]


class Runner:
    """Runs each program once for each target, however many cases look at the result."""

    def __init__(self) -> None:
        self._ran: dict[tuple[Path, str | None, bool], _Ran] = {}

    def outcome(self, case: Case) -> Outcome:
        """Return how a case went."""
        ran = self._of(case)
        if case.output is None or ran.result is None:
            return _judged(case, ran)
        array, tolerance = ran.expected[case.output]
        if case.output not in ran.result.outputs:
            return _failed(case, _no_output(case, ran.result))
        try:
            found = compare(case.output, ran.result.outputs[case.output], array, tolerance)
        except UsageError as problem:
            return _failed(case, str(problem))
        if not found.passed:
            return _failed(case, difference(found), element_of(found))
        bad = _unwanted(case, ran)
        return _failed(case, _findings_text(bad)) if bad else Outcome(True)

    def update(self, case: Case) -> Path | None:
        """Write an output as the golden array that the sidecar names; return the file, None where
        there is none. Raises UsageError where the expectation is no array of a file, or of no
        output of the program, and where the file can be neither read nor written."""
        ran = self._of(case, compares=False)
        if case.output is None or ran.result is None:
            return None
        if case.output not in ran.result.outputs:
            raise UsageError(f"{case.sidecar.path}: {_no_output(case, ran.result)}")
        file, name = in_file(case.sidecar.expect[case.output])
        path = beside(case.sidecar.folder, file)
        array = np.ascontiguousarray(ran.result.outputs[case.output])
        if array.dtype.kind not in "biuf":  # what NumPy has no name for is kept as its bits
            array = array.view(f"u{array.dtype.itemsize}")
        if path.suffix == ".npz" and name and ":" not in name:
            write_file(path, with_array(path, name, array))
        elif path.suffix == ".npy":
            write_file(path, npy_of(array))
        else:
            raise UsageError(f"{case.sidecar.expect[case.output]} is no file to write an array to")
        return path

    def stopped(self, case: Case) -> str:
        """Return why the program of a case does not run, '' if it does, or shall not."""
        ran = self._of(case, compares=False)
        if ran.result is not None or case.sidecar.exit_code:
            return ""
        return ran.problem or _findings_text(ran.findings)

    def _of(self, case: Case, *, compares: bool = True) -> _Ran:
        key = case.path, case.target, compares
        if key not in self._ran:
            self._ran[key] = _run(case, compares=compares)
        return self._ran[key]


def _no_output(case: Case, result: Result) -> str:
    outputs = ", ".join(result.outputs) or "none"
    return f"there is no output `{case.output}`; outputs: {outputs}"


def _run(case: Case, *, compares: bool) -> _Ran:
    """Run a case. Golden arrays are read only to be compared: before the first `--update` there are
    none."""
    kept = case.sidecar.options
    try:
        source = read_source(case.path)
        entry = kept.get("entry") if source.is_cpp else None  # of C++ only this one is read
        level, sync, compat = (kept.get(word) for word in ("level", "sync", "compat"))
        front = run_frontend(source, FrontOptions(case.target, level, sync, compat, entry))
        program = Program.of(front, kept.get("profile") or "hw", None, case.sidecar)
        expected = program.expected() if compares else {}
        result = program.run()
        failed = any(d.severity >= Severity.ERROR for d in result.findings)
        return _Ran(result, int(failed), result.findings, expected=expected)
    except ProgramError as problem:
        return _Ran(exit_code=problem.exit_code, findings=problem.diagnostics)
    except PtosimError as problem:
        return _Ran(exit_code=problem.exit_code, problem=str(problem))


def _judged(case: Case, ran: _Ran) -> Outcome:
    """A case that is about how the run ends and what it finds."""
    if ran.problem:
        return _failed(case, ran.problem)
    wanted, found = set(case.sidecar.codes), {d.code for d in ran.findings}
    if wanted - found:
        found |= _by_check(case)
    if ran.exit_code != case.sidecar.exit_code and not wanted & found:
        said = f"ended with exit code {ran.exit_code}, not {case.sidecar.exit_code}"
        return _failed(case, f"{said}\n{_findings_text(ran.findings)}")
    if wanted - found:
        return _failed(case, f"{', '.join(sorted(wanted - found))} was not found")
    bad = _unwanted(case, ran)
    return _failed(case, _findings_text(bad)) if bad else Outcome(True)


def _by_check(case: Case) -> set[str]:
    """What only `check` says, with what synchronisation could do without."""
    kept = case.sidecar.options
    checked = check_source(
        read_source(case.path), case.target, kept.get("level"), kept.get("sync"),
        compat=kept.get("compat"), redundant=True, entry=kept.get("entry"),
    )  # fmt: skip
    return {d.code for d in checked.findings}


def _unwanted(case: Case, ran: _Ran) -> list[Diagnostic]:
    if case.sidecar.exit_code:
        return []
    return [
        d for d in ran.findings if d.severity > Severity.NOTE and d.code not in case.sidecar.codes
    ]


def _findings_text(findings: Sequence[Diagnostic]) -> str:
    return render_all([d for d in findings if d.severity > Severity.NOTE], plain, WIDTH)


def _failed(case: Case, text: str, element: str = "") -> Outcome:
    command = case.command(element)
    return Outcome(False, f"{text.rstrip()}\n\nto look at it: {command}", command)


def element_of(found: Comparison) -> str:
    """Return the first element that differs: `y[3, 0]`."""
    return f"{found.name}[{', '.join(map(str, found.first or ()))}]"


def difference(found: Comparison) -> str:
    """Return in words how an output differs from what was expected."""
    place = ", ".join(map(str, found.first or ()))
    ulp = f", {found.max_ulp:,} ulp" if found.max_ulp is not None else ""
    return (
        f"output `{found.name}`: {found.mismatches:,} of {found.count:,} elements differ "
        f"({found.tolerance}; at most {found.max_difference:g}{ulp})\n"
        f"first at [{place}]: got {found.got}, expected {found.expected}"
    )
