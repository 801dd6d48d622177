"""A program as a Python function on arrays, and what tests say of a result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Severity
from ptosim.ground.errors import FindingsError, UsageError
from ptosim.launch.results import Result
from ptosim.tools.api import load


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
