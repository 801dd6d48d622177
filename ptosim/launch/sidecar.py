"""What belongs to a program apart from its text: `kernel.toml` next to `kernel.pto`.

summary = "…"
targets = ["a2a3", "a5"]
[args]                      # as on the command line, files relative to the program
x = "randn:f32:128x256:7"
[expect]                    # bit-exact unless a tolerance says otherwise
y = "kernel.npz:y"
[tolerance]
y = { rtol = 1e-3, atol = 1e-5 }
[assume]                    # what `check` takes for granted: ranges by name, or facts of any name
n = "1..128"
rows = "n % 16 == 0"
[index]                     # arguments that say where something runs, and what they are less than
rank = "ranks"
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptosim.ground.records import dataclass, field
from ptosim.launch.description import (
    COUNT,
    LEVEL,
    NUMBER,
    SYNC,
    TABLE,
    TARGETS,
    TEXT,
    TEXTS,
    VALUE,
    Check,
    TableReader,
    read_description,
)
from ptosim.launch.tolerance import Tolerance


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Inputs and expectations that are kept with a program."""

    path: Path
    summary: str = ""
    targets: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # those of OPTIONS
    args: dict[str, str] = field(default_factory=dict)
    expect: dict[str, str] = field(default_factory=dict)
    tolerance: dict[str, Tolerance] = field(default_factory=dict)
    exit_code: int = 0  # of programs that are wrong on purpose
    codes: tuple[str, ...] = ()  # the findings that they are there to show
    assume: dict[str, str] = field(default_factory=dict)
    index: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where the files are that it names."""
        return self.path.parent


OPTIONS = ("level", "entry", "block_num", "ranks", "profile", "seed", "sync", "compat")
"""Choices of a launch that a sidecar may make."""


_KEYS: dict[str, Check] = {
    "summary": TEXT, "targets": TARGETS, "codes": TEXTS, "exit_code": NUMBER,
    "args": TABLE, "expect": TABLE, "tolerance": TABLE, "assume": TABLE, "index": TABLE,
    "level": LEVEL, "entry": TEXT, "block_num": COUNT, "ranks": COUNT, "profile": TEXT,
    "seed": NUMBER, "sync": SYNC, "compat": TEXT, "part": TABLE,
}  # fmt: skip
_OF_PARTS: dict[str, Check] = {
    "targets": TARGETS, "args": TABLE, "expect": TABLE, "tolerance": TABLE,
}  # fmt: skip


def sidecar_of(program: Path, part: str = "") -> Sidecar | None:
    """Return the sidecar of a program, None if there is none; of a `part` what is said for it over
    what is said for all. Raises UsageError if it cannot be read, DescriptionError with everything
    that is wrong in it."""
    path = program.with_suffix(".toml") if program.name else program
    if not path.is_file():
        return None
    source, content = read_description(path)
    reader = TableReader(source)
    table = reader.table((), content, _KEYS, "a sidecar file")
    found = _tables(reader, (), table)
    for name, own in table.get("part", {}).items():
        at = ("part", name)
        if not reader.fits(at, own, TABLE):
            continue
        one = _tables(reader, at, reader.table(at, own, _OF_PARTS, "a part of a sidecar file"))
        if name.removesuffix(".pto") == part.removesuffix(".pto"):
            found = _Tables(
                found.args | one.args, found.expect | one.expect,
                found.tolerance | one.tolerance, one.targets or found.targets,
            )  # fmt: skip
    assume = reader.texts(("assume",), table.get("assume", {}))
    index = reader.texts(("index",), table.get("index", {}))
    reader.refuse_faults()
    return Sidecar(
        path,
        table.get("summary", ""),
        found.targets,
        {k: table[k] for k in OPTIONS if k in table},
        found.args,
        found.expect,
        found.tolerance,
        table.get("exit_code", 0),
        tuple(table.get("codes", ())),
        assume=assume,
        index=index,
    )


@dataclass(frozen=True, slots=True)
class _Tables:
    """What is said for all parts, or for one."""

    args: dict[str, str]
    expect: dict[str, str]
    tolerance: dict[str, Tolerance]
    targets: tuple[str, ...]


def _tables(reader: TableReader, at: tuple[str, ...], table: dict[str, Any]) -> _Tables:
    args = table.get("args", {}).items()
    return _Tables(
        {n: str(v) for n, v in args if reader.fits((*at, "args", n), v, VALUE)},
        reader.texts((*at, "expect"), table.get("expect", {})),
        {
            name: reader.tolerance((*at, "tolerance", name), each)
            for name, each in table.get("tolerance", {}).items()
            if reader.fits((*at, "tolerance", name), each, TABLE)
        },
        tuple(table.get("targets", ())),
    )


# The arguments and expectations that a sidecar file keeps with a program, as arrays.


def kept_arguments(sidecar: Sidecar) -> dict[str, Any]:
    """Return the arguments by name. Raises UsageError for a SPEC that means nothing or a file that
    cannot be read."""
    from ptosim.launch.values import parse_argument  # a check of the text alone loads no arrays

    return {name: parse_argument(spec, sidecar.folder) for name, spec in sidecar.args.items()}


def kept_expectations(sidecar: Sidecar) -> dict[str, tuple[Any, Tolerance]]:
    """Return the values that outputs are expected to have with those arguments, and how far they
    may be from them."""
    from ptosim.launch.values import parse_expectation  # as above

    return {
        name: (parse_expectation(spec, sidecar.folder), sidecar.tolerance.get(name, Tolerance()))
        for name, spec in sidecar.expect.items()
    }
