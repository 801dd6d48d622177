"""The file of a chain: what it may say, and what it says.

schema = 1
summary = "…"
targets = ["a2a3", "a5"]       # also: profile, compat, level, sync, seed
repeat = 10                    # the whole list of launches; `counter` names the number
counter = "layer"

[kernels]
norm = "rmsnorm.pto"           # or { file = …, entry = …, level = …, sync = …, block_num = … }

[buffers]
x = "randn:f32:16x512:1"       # as --arg; `empty:dtype:shape` has no content before a launch
w = "weights.npz:w"

[[launch]]
kernel = "norm"
args = { x = "x", w = "w[layer]", y = "y", n = "layer * 2", eps = 1e-6 }
name = "norm of the input"     # also: repeat, counter, block_num, expect

[expect]                       # after the last launch
y = "layer.npz:y"
[tolerance]
y = { rtol = 1e-3, atol = 1e-5 }
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source, Span
from ptosim.launch.array_files import beside
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
    KeyPath,
    Places,
    TableReader,
    Tolerance,
    read_description,
)

SCHEMA = 1
MAX_LAUNCHES = 100_000


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel: its file as a FILE argument names it, and how it is read and launched."""

    name: str
    file: str
    options: Mapping[str, Any]
    place: Span


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """A launch, or several of the same kernel one after the other."""

    name: str
    kernel: str
    args: Mapping[str, Any]
    repeat: int
    counter: str
    block_num: int | None
    expect: Mapping[str, str]
    path: KeyPath
    stream: str = ""
    after: tuple[str, ...] = ()


@dataclass(slots=True)
class ChainFile:
    """A chain as its file describes it."""

    source: Source
    folder: Path
    places: Places
    summary: str = ""
    targets: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # profile, compat, level, sync, seed
    repeat: int = 1
    counter: str = "repeat"
    kernels: dict[str, KernelEntry] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)
    launches: list[LaunchEntry] = field(default_factory=list)
    expect: dict[str, str] = field(default_factory=dict)
    tolerance: dict[str, Tolerance] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file without its folder and ending."""
        return Path(self.source.name).stem

    @property
    def count(self) -> int:
        """Launches in all."""
        return self.repeat * sum(launch.repeat for launch in self.launches)


# -- what may be there -----------------------------------------------------------------------------

_WORD: Check = (
    "a name of letters, digits and _",
    lambda v: isinstance(v, str) and v.isidentifier(),
)
_TABLES: Check = (
    "tables, `[[launch]]`",
    lambda v: isinstance(v, list) and all(isinstance(t, dict) for t in v),
)
_KERNEL: Check = ("a file, or a table with `file`", lambda v: isinstance(v, (str, dict)))

_TOP: dict[str, Check] = {
    "schema": (f"{SCHEMA}, the form of the file", lambda v: type(v) is int and v == SCHEMA),
    "summary": TEXT, "targets": TARGETS, "profile": TEXT, "compat": TEXT, "level": LEVEL,
    "sync": SYNC, "seed": NUMBER, "repeat": COUNT, "counter": _WORD, "kernels": TABLE,
    "buffers": TABLE, "launch": _TABLES, "expect": TABLE, "tolerance": TABLE,
}  # fmt: skip
_OF_KERNEL: dict[str, Check] = {
    "file": TEXT, "entry": TEXT, "level": LEVEL, "sync": SYNC, "block_num": COUNT,
}  # fmt: skip
_OF_LAUNCH: dict[str, Check] = {
    "kernel": TEXT, "name": TEXT, "args": TABLE, "repeat": COUNT, "counter": _WORD,
    "block_num": COUNT, "expect": TABLE, "stream": TEXT, "after": TEXTS,
}  # fmt: skip
_CHOICES = ("profile", "compat", "level", "sync", "seed")


class _Reader(TableReader):
    """Reads the file of a chain."""

    # -- the parts --------------------------------------------------------------------------------

    def read(self, table: Mapping[str, Any], folder: Path) -> ChainFile:
        """Return the chain that a file describes."""
        top = self.table((), table, _TOP, "the file", ("kernels", "buffers", "launch"))
        made = ChainFile(
            self.source,
            folder,
            self.places,
            top.get("summary", ""),
            tuple(top.get("targets", ("a2a3", "a5"))),
            {n: top[n] for n in _CHOICES if n in top},
            top.get("repeat", 1),
            top.get("counter", "repeat"),
        )
        made.kernels = self._kernels(top.get("kernels", {}), folder)
        buffers = top.get("buffers", {})
        made.buffers = self.texts(("buffers",), buffers)
        if top.get("launch") == []:
            self.sink.report("PTO1083", "the file has no launch", help="write a `[[launch]]`")
        for number, one in enumerate(top.get("launch", ())):
            launch = self._launch(("launch", number), one, top)
            made.launches += [launch] if launch is not None else []
        made.expect = self._expect(("expect",), top.get("expect", {}), buffers)
        made.tolerance = self._tolerances(top.get("tolerance", {}), buffers)
        if made.count > MAX_LAUNCHES:
            self.sink.report(
                "PTO1082",
                f"the file makes {made.count:,} launches; the limit is {MAX_LAUNCHES:,}",
                self.places.value(("repeat",)),
                help="repeat less often",
            )
        return made

    def _kernels(self, table: Mapping[str, Any], folder: Path) -> dict[str, KernelEntry]:
        found = {}
        for name, value in table.items():
            path: KeyPath = ("kernels", name)
            if not self.fits(path, value, _KERNEL):
                continue
            given = {"file": value} if isinstance(value, str) else value
            read = self.table(path, given, _OF_KERNEL, f"kernel `{name}`", ("file",))
            if "file" not in read:
                continue
            file = str(read.pop("file"))
            file = file if file.startswith("@") else str(beside(folder, file))
            place = self.places.value((*path, "file") if isinstance(value, dict) else path)
            found[name] = KernelEntry(name, file, read, place)
        return found

    def _launch(
        self, path: KeyPath, table: Mapping[str, Any], top: Mapping[str, Any]
    ) -> LaunchEntry | None:
        what = f"launch {int(path[-1]) + 1}"
        read = self.table(path, table, _OF_LAUNCH, what, ("kernel", "args"))
        kernel = read.get("kernel")
        if kernel is None or "args" not in read:
            return None
        if not self.known((*path, "kernel"), kernel, top.get("kernels", {}), "kernel"):
            return None
        args = {
            name: value
            for name, value in read["args"].items()
            if self.fits((*path, "args", name), value, VALUE)
        }
        expect = self._expect((*path, "expect"), read.get("expect", {}), top.get("buffers", {}))
        return LaunchEntry(
            read.get("name", kernel),
            kernel,
            args,
            read.get("repeat", 1),
            read.get("counter", "i"),
            read.get("block_num"),
            expect,
            path,
            read.get("stream", ""),
            tuple(n for n in read.get("after", ()) if self._is_launch(path, n, top)),
        )

    def _is_launch(self, path: KeyPath, name: str, top: Mapping[str, Any]) -> bool:
        names = {one.get("name", one.get("kernel")): None for one in top["launch"]}
        return self.known((*path, "after"), name, names, "launch")

    def _expect(
        self, path: KeyPath, table: Mapping[str, Any], buffers: Mapping[str, Any]
    ) -> dict[str, str]:
        texts = self.texts(path, table)
        return {n: v for n, v in texts.items() if self.known((*path, n), n, buffers, "buffer")}

    def _tolerances(
        self, table: Mapping[str, Any], buffers: Mapping[str, Any]
    ) -> dict[str, Tolerance]:
        found = {}
        for name, value in table.items():
            path: KeyPath = ("tolerance", name)
            if self.known(path, name, buffers, "buffer") and self.fits(path, value, TABLE):
                found[name] = self.tolerance(path, value)
        return found


def read_chain(path: Path) -> ChainFile:
    """Read the file of a chain. Raises UsageError for a file that cannot be read, DescriptionError
    with everything that is wrong in it."""
    source, table = read_description(path)
    reader = _Reader(source)
    made = reader.read(table, path.parent)
    reader.refuse_faults()
    return made
