"""Comparing an output with what was expected of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.processes import keep
from ptosim.ground.records import dataclass, field, replace
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.place.cores import peer_functions
from ptosim.launch.array_files import parse_argument
from ptosim.launch.description import (
    OPTIONS,
    Sidecar,
    Tolerance,
    kept_arguments,
    kept_expectations,
    sidecar_of,
)
from ptosim.launch.prepared import NORMAL, Redraw, RunOptions
from ptosim.launch.program import LoadedProgram
from ptosim.launch.sources import beside, function_named, open_source, source_path, split_part
from ptosim.machine.pages import has_numbers, native


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on one output."""

    name: str
    count: int
    mismatches: int
    first: tuple[int, ...] | None
    got: Any
    expected: Any
    max_difference: float
    max_ulp: int | None  # of finite floats; None for integers
    tolerance: Tolerance

    @property
    def passed(self) -> bool:
        """True if nothing differs beyond the tolerance."""
        return self.mismatches == 0

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON data."""
        return {
            "name": self.name,
            "passed": self.passed,
            "elements": self.count,
            "mismatches": self.mismatches,
            "first": list(self.first) if self.first is not None else None,
            "got": _plain(self.got),
            "expected": _plain(self.expected),
            "max_difference": self.max_difference,
            "max_ulp": self.max_ulp,
            "tolerance": str(self.tolerance),
        }


def _plain(value: Any) -> Any:
    return None if value is None else str(value)


def compare(name: str, got: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> Comparison:
    """Compare an output with its expectation; raises UsageError if shapes or types cannot be
    matched.

    The expectation may have any shape of the same number of elements. Unsigned integers and raw
    bytes of the same width are codes, signed ones are codes of a float that NumPy does not have.
    """
    if got.size != expected.size:
        raise UsageError(
            f"expected values for `{name}` have shape {expected.shape}, the output {got.shape}"
        )
    expected = _same_kind(name, got, native(expected).reshape(got.shape))
    with np.errstate(all="ignore"):
        same = _equal(got, expected) if tolerance.is_exact else _close(got, expected, tolerance)
        difference = np.abs(_wide(got) - _wide(expected))
        finite = difference[np.isfinite(difference)]
    wrong = np.argwhere(~same)
    first = tuple(int(i) for i in wrong[0]) if len(wrong) else None
    return Comparison(
        name,
        got.size,
        len(wrong),
        first,
        got[first] if first is not None else None,
        expected[first] if first is not None else None,
        float(finite.max()) if finite.size else 0.0,
        _max_ulp(got, expected, np.isfinite(difference)),
        tolerance,
    )


def _same_kind(name: str, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if expected.dtype == got.dtype:
        return expected
    if _are_codes(got.dtype, expected.dtype):
        return expected.view(got.dtype)
    what = f"expected values for `{name}` are {expected.dtype}, the output {got.dtype}"
    if not has_numbers(expected.dtype):
        raise UsageError(
            f"{what}, and they cannot be compared",
            help="give numbers that 64 bits hold, or raw bytes of the output's width",
        )
    with np.errstate(all="ignore"):
        converted = expected.astype(got.dtype)
        if np.array_equal(_wide(converted), _wide(expected), equal_nan=True):
            return converted
    raise UsageError(f"{what}, and some are not representable in it")


def _are_codes(got: np.dtype, expected: np.dtype) -> bool:
    if got.itemsize != expected.itemsize or expected.names is not None:
        return False
    if got.kind in "iub":
        return expected.kind in "uiV"
    if expected.type is np.void:
        return True
    return expected.kind in ("ui" if got.kind == "V" else "u")  # signed: values of f32 and f16


def _wide(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        return values.astype(np.longdouble)
    return values.astype(np.float64)


def _equal(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if got.dtype.kind in "iub":
        return got == expected
    bits = f"u{got.dtype.itemsize}"
    same = got.view(bits) == expected.view(bits)
    return same | (np.isnan(_wide(got)) & np.isnan(_wide(expected)))


def _close(got: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    wide_got, wide_expected = _wide(got), _wide(expected)
    close = _equal(got, expected)
    if tolerance.rtol is not None or tolerance.atol is not None:
        most = float(np.finfo(np.float64).max)  # whole numbers may be larger
        least, share = (float(min(t or 0.0, most)) for t in (tolerance.atol, tolerance.rtol))
        bound = least + share * np.abs(wide_expected)
        close = close | (np.abs(wide_got - wide_expected) <= bound)
    if tolerance.ulp is not None:
        close = close | (_ulps(got, expected) <= tolerance.ulp)
        close &= ~(np.isnan(wide_got) ^ np.isnan(wide_expected))
    return close


def _max_ulp(got: np.ndarray, expected: np.ndarray, finite: np.ndarray) -> int | None:
    if got.dtype.kind in "iub":
        return None
    return int(_ulps(got, expected).max(initial=0, where=finite))


def _ulps(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Units in the last place between values: unsigned, for those of 64 bits are up to 2^64 apart,
    where the difference of the larger and the smaller one is right as unsigned numbers wrap."""
    one, other = _order(got), _order(expected)
    return np.maximum(one, other).view(np.uint64) - np.minimum(one, other).view(np.uint64)


_SIGN = np.uint64(1 << 63)


def _order(values: np.ndarray) -> np.ndarray:
    """Consecutive numbers for consecutive values, so that differences count units in the last
    place."""
    if values.dtype == np.uint64:
        return (values ^ _SIGN).view(np.int64)
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    bits = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    magnitude = bits & ((1 << (values.dtype.itemsize * 8 - 1)) - 1)
    return np.where(bits < 0, -magnitude, magnitude)


# What a program is launched with, as a command line or an editor asks for it.

_RUN_OPTIONS = tuple(
    f.name for f in fields(RunOptions) if f.name not in ("in_place", "sizes", "popped")
)


@dataclass(frozen=True, slots=True)
class Choices:
    """A file (a path, `-` or `@name`) and how it is read and launched. None leaves a choice to the
    sidecar of the program, then to the default. `args` are SPECs by name."""

    file: str
    target: str | None = None
    level: int | None = None
    sync: str | None = None
    compat: str | None = None
    legacy: bool = False
    planner: str | None = None
    maker: str | None = None
    profile: str | None = None
    switches: Mapping[str, str] = field(default_factory=dict)
    entry: str | None = None
    args: Mapping[str, str] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)
    parameters: Sequence[str] = ()
    dump: bool = False
    block_num: int | None = None
    ranks: int | None = None
    sanitize: str | None = None
    timing: bool | None = None
    commit: str | None = None
    schedule: int | None = None
    uninit: str | None = None
    seed: int | None = None
    inputs: str | None = None
    peer: str | None = None
    jobs: int | None = None
    max_instructions: int | None = None
    sidecar: Sidecar | None = None

    def completed(self) -> Choices:
        """Return the choices with what the sidecar of the program says where they are open. Raises
        UsageError if it is malformed."""
        function = function_named(self.file) if self.entry is None else None
        if function is not None:
            return replace(self, file=function[0], entry=function[1]).completed()
        file, part = split_part(self.file)
        sidecar = None if file == "-" else sidecar_of(source_path(file), part)
        if sidecar is None:
            return self
        given = sidecar.options
        left = {n: given[n] for n in OPTIONS if n in given and getattr(self, n) is None}
        return replace(self, sidecar=sidecar, **left)

    @property
    def other_half(self) -> str | None:
        """The file of the other half of a pair of kernels, and its function."""
        return self.peer if self.peer not in (None, "stub") else None

    def _halves(self) -> tuple[str, str | None]:
        """The file with the other half, and the name of its function where it is given."""
        named = function_named(self.other_half or "")
        return named if named is not None else (self.other_half or "", None)

    def front(self) -> Front:
        """Return the program as the static checks leave it."""
        source, entry = open_source(self.file), self.entry
        if self.other_half is not None:
            if "#" not in self.other_half:
                raise UsageError(
                    f"--peer does not take `{self.other_half}`", help="`stub`, or `FILE#name`"
                )
            if entry is None:
                alone = replace(self, peer=None).front().resolved.entries
                entry = alone[0] if len(alone) == 1 else None
            source = beside(source, open_source(self._halves()[0]))
        asked = FrontOptions(
            self.target,
            self.level,
            self.sync,
            self.compat,
            entry,
            legacy=self.legacy,
            planner=self.planner,
            maker=self.maker,
            defines=self.defines,
            profile=self.profile,
            parameters=self.parameters,
            dump=self.dump,
        )
        return run_frontend(source, asked)

    def program(self, front: Front | None = None) -> LoadedProgram:
        """Return the program, ready to run; `front` is what `front()` gives, where somebody asked
        it before. Raises ProgramError if it is wrong.

        It lives as long as the process, so the garbage collector need not go through it again and
        again; with thousands of operations each time would take a tenth of a second.
        """
        checked = front or self.front()
        if self.other_half is not None:
            self._check_pair(checked)
        program = LoadedProgram.of(checked, self.profile or "hw", self.switches, self.sidecar)
        keep()
        return program

    def _check_pair(self, front: Front) -> None:
        """Raise UsageError if the function of the other file is not the other half."""
        entry, name = front.entry, self._halves()[1]
        if entry is None or front.sink.is_rejected:
            return
        function = front.resolved.functions.get(entry)
        launched = peer_functions(front.resolved, function) if function is not None else []
        if not any(f.symbol == name or name is None for f in launched[1:]):
            raise UsageError(
                f"`{self.other_half}` is not the other half of @{entry}",
                help="a FIFO that one of them imports joins two kernels, or signals between a cube "
                "kernel and a vector kernel",
            )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the sidecar, and those that were given over them."""
        args: dict[str, Any] = {}
        if self.sidecar is not None:
            args.update(kept_arguments(self.sidecar))
        args.update((name, parse_argument(spec)) for name, spec in self.args.items())
        return args

    def run_arguments(self) -> dict[str, Any]:
        """Return the same for a run: of hard inputs the sidecar's are marked to be drawn again."""
        args = self.arguments()
        if (self.inputs or NORMAL) == NORMAL:
            return args
        return {n: v if n in self.args else Redraw(v) for n, v in args.items()}

    def expected(self) -> dict[str, tuple[Any, Tolerance]]:
        """Return the outputs that the sidecar expects, as long as its own arguments are used."""
        is_own = not self.args and (self.inputs or NORMAL) == NORMAL
        return kept_expectations(self.sidecar) if self.sidecar is not None and is_own else {}

    def run_options(self, *names: str) -> dict[str, Any]:
        """Return keyword arguments of `RunOptions`, all of them or those of these names, without
        those that are left to it."""
        given = {name: getattr(self, name) for name in names or _RUN_OPTIONS}
        given |= {"peer": None} if self.other_half is not None and "peer" in given else {}
        return {name: value for name, value in given.items() if value is not None}
