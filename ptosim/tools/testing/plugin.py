"""The pytest plug-in: programs with sidecars are collected as tests, and tests get `pto`.

Loads ptosim only where there is a program, for pytest loads this in every project."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ptosim.ground.diagnostics.model import FindingsError, Severity
from ptosim.ground.errors import UsageError
from ptosim.launch.results import Result
from ptosim.tools.api import load

if TYPE_CHECKING:
    from ptosim.tools.testing.cases import Case, Runner

# A program as a Python function on arrays, and what tests say of a result.


class Kernel:
    """Calls a program; see `kernel`."""

    def __init__(
        self,
        file: str | Path,
        targets: Sequence[str | None],
        function: Callable[..., Any],
        options: dict[str, Any],
    ) -> None:
        self._programs = {t: load(file, target=t) for t in targets}
        self._function = function
        self._options = options
        self.__doc__ = getattr(function, "__doc__", None)
        self.__name__ = getattr(function, "__name__", Path(str(file)).stem)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Run on arguments, by place or by name. Returns the result (of several targets a dict by
        target). Raises what `Program.run` raises."""
        results = {t: self._run(p, given, named) for t, p in self._programs.items()}
        return results if len(results) > 1 else next(iter(results.values()))

    def _run(self, program: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Result:
        bound = inspect.signature(self._function).bind(*given, **named)
        bound.apply_defaults()
        arguments = {name: as_array(value) for name, value in bound.arguments.items()}
        return program.run(arguments, **self._options)


def kernel(
    file: str | Path, target: str | Sequence[str] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a function of a program: `@ptosim.kernel("vadd.pto", target=["a2a3", "a5"])`.

    The decorated function gives the names and defaults of the arguments; its body is not executed.
    Arguments are NumPy arrays, numbers, or anything with `__dlpack__` or `__array__` (such as torch
    tensors). A call returns a `Result`, for several targets a dict of them. `options` go to
    `Program.run`. Relative paths begin in the folder of the file that decorates. Raises what `load`
    raises."""
    targets = [target] if target is None or isinstance(target, str) else list(target)
    if not targets:
        raise UsageError("no target is named")

    def wrap(function: Callable[..., Any]) -> Kernel:
        path = file if str(file).startswith("@") else Path(file)
        if isinstance(path, Path) and not path.is_absolute():
            path = Path(inspect.getfile(function)).parent / path
        return Kernel(path, targets, function, options)

    return wrap


def as_array(value: Any) -> Any:
    """Return an array of what has `__dlpack__` or `__array__`; everything else as it is."""
    if isinstance(value, (np.ndarray, np.generic, int, float, bool, str)):
        return value
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(value) if hasattr(value, "__array__") else value


def assert_clean(result: Result) -> None:
    """Fail with the findings of a run if it has any beyond notes."""
    try:
        result.raise_for_findings(Severity.WARNING.word)
    except FindingsError as problem:
        from ptosim.views.frames import plain, render_all

        raise AssertionError(render_all(problem.diagnostics, plain, 100)) from None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the plug-in's options."""
    parser.getgroup("ptosim").addoption(
        "--pto-update", action="store_true", help="write outputs as the golden arrays of sidecars"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a program that has a sidecar."""
    if file_path.suffix != ".pto" or not file_path.with_suffix(".toml").is_file():
        return None
    return PtoFile.from_parent(parent, path=file_path)


class PtoFile(pytest.File):
    """A program."""

    def collect(self) -> Iterator[PtoItem]:
        """Yield a test for each target and expectation."""
        from ptosim.ground.errors import PtosimError
        from ptosim.tools.testing.cases import Runner, cases_of

        runner = Runner()
        try:
            cases = cases_of(self.path)
        except PtosimError as problem:
            raise self.CollectError(str(problem)) from problem
        for case in cases:
            yield PtoItem.from_parent(self, name=case.name, case=case, runner=runner)


class PtoFailure(Exception):
    """A case that failed, with what is shown."""


class PtoItem(pytest.Item):
    """A program on a target, and one of its outputs."""

    def __init__(self, *, case: Case, runner: Runner, **rest: Any) -> None:
        super().__init__(**rest)
        self.case = case
        self.runner = runner
        self.funcargs: dict[str, object] = {}  # other plug-ins expect them of every item

    def runtest(self) -> None:
        """Run the program, and compare."""
        if self.config.getoption("--pto-update"):
            self.runner.update(self.case)
            return
        outcome = self.runner.outcome(self.case)
        if not outcome.passed:
            raise PtoFailure(outcome.text)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Show the finding, the difference or what the sidecar asks in vain, alone."""
        from ptosim.ground.errors import UsageError

        if isinstance(excinfo.value, PtoFailure | UsageError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it is and what it is called."""
        return self.path, 0, f"{self.path.name}::{self.name}"


class Pto:
    """What the fixture `pto` gives a test: programs by paths relative to the test's file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, file: str, **options: Any) -> Any:
        """Return a program, as `ptosim.load`."""
        from ptosim.tools.api import load

        return load(file if file.startswith("@") else self._folder / file, **options)

    def run(self, file: str, args: Any = None, *, target: str | None = None, **options: Any) -> Any:
        """Return the result of a run, as `Program.run`."""
        return self.load(file, target=target).run(args, **options)

    def assert_clean(self, result: Any) -> None:
        """Fail if a run found anything."""
        assert_clean(result)


@pytest.fixture
def pto(request: pytest.FixtureRequest) -> Pto:
    """Programs beside the test: `pto.run("vadd.pto", {"x": x, "y": y})`."""
    return Pto(request.path.parent)
