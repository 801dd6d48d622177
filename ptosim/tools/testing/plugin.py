"""The pytest plug-in: programs with sidecars are collected as tests, and tests get `pto`.

Loads ptosim only where there is a program, for pytest loads this in every project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ptosim.tools.testing.cases import Case, Runner


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
        from ptosim.tools.testing.kernel import assert_clean

        assert_clean(result)


@pytest.fixture
def pto(request: pytest.FixtureRequest) -> Pto:
    """Programs beside the test: `pto.run("vadd.pto", {"x": x, "y": y})`."""
    return Pto(request.path.parent)
