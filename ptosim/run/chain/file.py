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

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import DescriptionError, UsageError
from ptosim.ground.nearest import nearest
from ptosim.ground.source import Source, Span
from ptosim.run.chain.places import Path as KeyPath
from ptosim.run.chain.places import Places
from ptosim.run.compare import Tolerance

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

Check = tuple[str, Callable[[Any], bool]]
_TEXT: Check = ("a text", lambda v: isinstance(v, str))
_WORD: Check = (
    "a name of letters, digits and _",
    lambda v: isinstance(v, str) and v.isidentifier(),
)
_COUNT: Check = ("a whole number from 1 on", lambda v: type(v) is int and v >= 1)
_NUMBER: Check = ("a whole number from 0 on", lambda v: type(v) is int and v >= 0)
_TABLE: Check = ("a table", lambda v: isinstance(v, dict))
_TABLES: Check = (
    "tables, `[[launch]]`",
    lambda v: isinstance(v, list) and all(isinstance(t, dict) for t in v),
)
_KERNEL: Check = ("a file, or a table with `file`", lambda v: isinstance(v, (str, dict)))
_ARGUMENT: Check = (
    "a buffer, a number or a text for one",
    lambda v: isinstance(v, (str, int, float)),
)
_LEVEL: Check = ("1, 2 or 3", lambda v: type(v) is int and v in (1, 2, 3))
_SYNC: Check = ("`auto` or `manual`", lambda v: v in ("auto", "manual"))
_SIZE: Check = ("a number from 0 on", lambda v: type(v) in (int, float) and v >= 0)
_TARGETS: Check = (
    "a list of targets, `a2a3` and `a5`",
    lambda v: isinstance(v, list) and bool(v) and all(isinstance(t, str) for t in v),
)

_TOP: dict[str, Check] = {
    "schema": (f"{SCHEMA}, the form of the file", lambda v: type(v) is int and v == SCHEMA),
    "summary": _TEXT, "targets": _TARGETS, "profile": _TEXT, "compat": _TEXT, "level": _LEVEL,
    "sync": _SYNC, "seed": _NUMBER, "repeat": _COUNT, "counter": _WORD, "kernels": _TABLE,
    "buffers": _TABLE, "launch": _TABLES, "expect": _TABLE, "tolerance": _TABLE,
}  # fmt: skip
_OF_KERNEL: dict[str, Check] = {
    "file": _TEXT, "entry": _TEXT, "level": _LEVEL, "sync": _SYNC, "block_num": _COUNT,
}  # fmt: skip
_OF_LAUNCH: dict[str, Check] = {
    "kernel": _TEXT, "name": _TEXT, "args": _TABLE, "repeat": _COUNT, "counter": _WORD,
    "block_num": _COUNT, "expect": _TABLE,
}  # fmt: skip
_OF_TOLERANCE: dict[str, Check] = {"rtol": _SIZE, "atol": _SIZE, "ulp": _NUMBER}
_CHOICES = ("profile", "compat", "level", "sync", "seed")


class _Reader:
    """Reads one file; what is wrong goes into `sink`, and the rest is read all the same."""

    def __init__(self, source: Source, places: Places) -> None:
        self.source = source
        self.places = places
        self.sink = Sink()

    def table(
        self, path: KeyPath, table: Mapping[str, Any], checks: Mapping[str, Check], what: str,
        required: tuple[str, ...] = (),
    ) -> dict[str, Any]:  # fmt: skip
        """Return the entries of a table that are what they should be."""
        for name in required:
            if name not in table:
                self.sink.report(
                    "PTO1083",
                    f"{what} has no `{name}`",
                    self.places.key(path),
                    help=f"write `{name} = …`: {checks[name][0]}",
                )
        for name in table.keys() - checks.keys():
            known = f"{what} may have: {', '.join(checks)}"
            self.sink.report(
                "PTO1081",
                f"{what} has a key `{name}`, which means nothing",
                self.places.key((*path, name)),
                notes=(known,),
                help=nearest(name, checks, "remove it"),
            )
        return {
            n: v for n, v in table.items() if n in checks and self.fits((*path, n), v, checks[n])
        }

    def fits(self, path: KeyPath, value: Any, check: Check) -> bool:
        """Report a value that is not what it should be."""
        words, is_right = check
        if is_right(value) and not (isinstance(value, bool) and check is not _ARGUMENT):
            return True
        self.sink.report(
            "PTO1082",
            f"`{path[-1]}` is {_described(value)}; it should be {words}",
            self.places.value(path),
            help=f"write {words}",
        )
        return False

    def texts(self, path: KeyPath, table: Mapping[str, Any]) -> dict[str, str]:
        """Return a table of texts by name."""
        return {n: v for n, v in table.items() if self.fits((*path, n), v, _TEXT)}

    def known(self, path: KeyPath, name: str, names: Mapping[str, Any], what: str) -> bool:
        """Report a name that stands for nothing."""
        if name in names:
            return True
        listed = ", ".join(names) or "none"
        self.sink.report(
            "PTO1084",
            f"there is no {what} `{name}`",
            self.places.value(path),
            notes=(f"{what}s: {listed}",),
            help=nearest(name, names, f"name it in `[{what}s]`"),
        )
        return False

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
        made.tolerance = self._tolerance(top.get("tolerance", {}), buffers)
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
            file = file if file.startswith("@") else str(folder / file)
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
            if self.fits((*path, "args", name), value, _ARGUMENT)
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
        )

    def _expect(
        self, path: KeyPath, table: Mapping[str, Any], buffers: Mapping[str, Any]
    ) -> dict[str, str]:
        texts = self.texts(path, table)
        return {n: v for n, v in texts.items() if self.known((*path, n), n, buffers, "buffer")}

    def _tolerance(
        self, table: Mapping[str, Any], buffers: Mapping[str, Any]
    ) -> dict[str, Tolerance]:
        found = {}
        for name, value in table.items():
            path: KeyPath = ("tolerance", name)
            if self.known(path, name, buffers, "buffer") and self.fits(path, value, _TABLE):
                found[name] = Tolerance(
                    **self.table(path, value, _OF_TOLERANCE, f"the tolerance of `{name}`")
                )
        return found


def _described(value: Any) -> str:
    kinds = {dict: "a table", list: "a list", str: "the text", bool: "the value"}
    word = kinds.get(type(value), "the number")
    if isinstance(value, (dict, list)):
        return word
    return f"{word} `{str(value).lower() if isinstance(value, bool) else value}`"


def read_chain(path: Path) -> ChainFile:
    """Read the file of a chain. Raises UsageError for a file that cannot be read, DescriptionError
    with everything that is wrong in it."""
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as problem:
        raise UsageError(f"cannot read {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path} is not UTF-8 text (byte {problem.start})") from problem
    source = Source(str(path), text)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise _unreadable(source, str(problem)) from problem
    reader = _Reader(source, Places.of(source))
    made = reader.read(table, path.parent)
    if reader.sink.has_errors:
        raise DescriptionError(sorted(reader.sink, key=lambda d: d.span.start if d.span else 0))
    return made


def _unreadable(source: Source, message: str) -> DescriptionError:
    found = re.search(r"\(at line (\d+), column (\d+)\)", message)
    start = len(source.text)
    if found is not None:
        lines = source.text.split("\n")[: int(found[1]) - 1]
        start = sum(len(line) + 1 for line in lines) + int(found[2]) - 1
    sink = Sink()
    sink.report(
        "PTO1080",
        f"the file is not TOML: {message.partition(' (at')[0].lower()}",
        Span(source, min(start, len(source.text)), min(start + 1, len(source.text))),
        help="texts are between quotation marks; a table begins with `[name]`, a launch with "
        "`[[launch]]`",
    )
    return DescriptionError(list(sink))
