"""Results kept in an SQLite file by what they are results of, so that a sweep that was stopped goes
on, and one that was changed computes only what is new.

The key of a row is a digest of the program's text, the parameters, the target, everything that was
asked, the version, and the files that ptosim and the data of the ISA are made of. Expectations that
are functions of the caller have no content that could be compared: such rows are not kept."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ptosim.ground import __version__
from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_bytes
from ptosim.ground.isa.cache import cache_directory, isa_directory
from ptosim.ground.records import dataclass
from ptosim.launch.array_files import beside, in_file
from ptosim.tools.search.point import DONE, Row
from ptosim.tools.search.request import Request

# Rows that no other one beats in everything, and what one sweep has that another had not.

_WORKING = ("UB", "L1")
"""Memories that a program has to share with others; the first that points differ in counts."""
_KEYS = ("params", "target", "ok", "stage", "reason", "cycles")
_LARGEST = 1e300


def goals_of(rows: Sequence[Row]) -> list[str]:
    """Return what is to be small in these rows: cycles, bytes moved, and bytes of the first memory
    that they differ in (UB, else L1); what is the same in all of them decides nothing."""
    memories = [n for n in _WORKING if len({_small(row, n) for row in rows}) > 1]
    return ["cycles", *memories[:1], "gm_bytes"]


def front_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that no other one beats: is as small in every goal, and smaller in one. Of
    rows that are alike all are returned; the least of the first goal comes first."""
    goals = goals_of(rows)
    costs = [(tuple(_small(row, goal) for goal in goals), row) for row in rows]
    costs.sort(key=lambda pair: pair[0])
    front: list[tuple[Any, Row]] = []
    for cost, row in costs:  # whoever beats a row comes before it
        if not any(_beats(other, cost) for other, _ in front):
            front.append((cost, row))
    return [row for _, row in front]


def _small(row: Row, goal: str) -> int:
    """What a row has of a goal: a figure, else the bytes of a memory."""
    return row[goal] if goal in row else row["memory"].get(goal, 0)


def _beats(one: Sequence[int], other: Sequence[int]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


@dataclass(frozen=True, slots=True)
class Change:
    """A row of two sweeps that differs, in words; `before` or `after` is None where it is in one
    only."""

    before: Row | None
    after: Row | None
    text: str
    is_worse: bool


def changes(before: Sequence[Row], after: Sequence[Row], slack: float = 0.0) -> Iterator[Change]:
    """Yield what differs between two sweeps, in the order of the later one; then the rows that only
    the earlier one has. Worse is: refused now, values that differ now, gone, or more cycles, by
    more than `slack` (a share)."""
    known = {_name(row): row for row in before}
    for row in after:
        old = known.pop(_name(row), None)
        if old is None:
            yield Change(None, row, "new", False)
        elif found := _changed(old, row, slack):
            yield Change(old, row, *found)
    for old in known.values():
        yield Change(old, None, "not in the later sweep", True)


def _changed(old: Row, new: Row, slack: float) -> tuple[str, bool] | None:
    if old["ok"] != new["ok"]:
        row = old if new["ok"] else new
        reason = f"{row['stage']}: {row['reason']}"
        return (f"accepted now; was {reason}", False) if new["ok"] else (f"refused: {reason}", True)
    if not new["ok"]:
        is_same = (old["stage"], old["reason"]) == (new["stage"], new["reason"])
        told = f"refused for another reason: {new['stage']}: {new['reason']}"
        return None if is_same else (told, False)
    if old["cycles"] == new["cycles"]:
        return None
    share = new["cycles"] / max(old["cycles"], 1) - 1
    return f"{old['cycles']:,} -> {new['cycles']:,} cycles ({share:+.1%})", share > slack


def _name(row: Row) -> str:
    return json.dumps([row["params"], row["target"]], sort_keys=True)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file of JSON lines that a sweep wrote. Raises UsageError (PTO7608)."""
    try:
        lines = read_bytes(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as problem:
        raise UsageError(f"PTO7608: {path} is not UTF-8 text") from problem
    rows = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise UsageError(f"PTO7608: {path} has no rows")
    return rows


def _row(path: Path, number: int, line: str) -> Row:
    row = row_in(line)
    if row is None:
        raise UsageError(
            f"PTO7608: line {number} of {path} is no row of a sweep",
            help="`ptosim sweep … --format jsonl -o FILE` writes such files",
        )
    return row


def row_in(text: object) -> Row | None:
    """Return the row that a text of JSON holds; None for what no sweep writes."""
    try:
        row = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or any(key not in row for key in _KEYS) or not _is_sound(row):
        return None
    found = {k: row.get(k) for k in (*_KEYS, "us", "ub_bytes", "gm_bytes", "memory", "values")}
    if found["memory"] is None and found["ub_bytes"] is not None:
        found["memory"] = {"UB": found["ub_bytes"]}  # all that rows of earlier versions know
    return found


def _is_sound(row: Row) -> bool:
    """True for what a sweep writes: the stage of an accepted row is `done`, and only a refused one
    has a reason."""
    numbers = [row.get(k) for k in ("cycles", "us", "ub_bytes", "gm_bytes")]
    params = row["params"]
    return (
        isinstance(params, dict)
        and all(isinstance(v, str | bool) or _is_number(v) for v in params.values())
        and isinstance(row["target"], str)
        and isinstance(row["ok"], bool)
        and isinstance(row["stage"], str)
        and row["ok"] == (row["stage"] == DONE)
        and (row["reason"] is None if row["ok"] else isinstance(row["reason"], str))
        and row.get("values") in (None, True, False)
        and _is_memory(row.get("memory"))
        and all(_is_number(n) or (n is None and not row["ok"]) for n in numbers)
    )


def _is_memory(found: object) -> bool:
    """True for bytes by the names of memories, or for none."""
    return found is None or (
        isinstance(found, dict)
        and all(isinstance(name, str) and type(size) is int for name, size in found.items())
    )


def _is_number(value: object) -> bool:
    """True for a number that a page can show: finite, as a float too."""
    return type(value) in (int, float) and abs(value) <= _LARGEST  # type: ignore[operator]


SCHEMA = 1
_APPLICATION = 0x50544F53  # "PTOS", in the file's header
MOST_ROWS = 200_000
"""Above which the rows of other versions of ptosim are removed: some 60 MB."""
_EVERY = 1.0
"""Seconds between two commits: that much work is lost by a kill."""


def default_store() -> Path | None:
    """Return the file that commands keep results in unless they are told another: in the user's
    cache, None where that is switched off."""
    folder = cache_directory()
    return folder / "sweeps.sqlite" if folder is not None else None


class Store:
    """Rows by their keys. Several sweeps may use one file at the same time."""

    def __init__(self, path: str | Path) -> None:
        """Raises UsageError (PTO7607) for a file that is no store, or cannot be made."""
        self._path = Path(path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(self._path, timeout=60)
        except (OSError, sqlite3.Error) as problem:
            raise self._unusable(problem) from problem
        try:
            self._prepare()
        except sqlite3.Error as problem:
            self._file.close()
            raise self._unusable(problem) from problem
        self._committed = time.monotonic()

    def _prepare(self) -> None:
        (application,) = self._file.execute("PRAGMA application_id").fetchone()
        (schema,) = self._file.execute("PRAGMA user_version").fetchone()
        tables = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and (application, schema) != (_APPLICATION, SCHEMA):
            raise sqlite3.DatabaseError("it is a database of something else")
        self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
        self._file.execute(f"PRAGMA user_version = {SCHEMA}")
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS rows "
            "(key TEXT PRIMARY KEY, program TEXT NOT NULL, row TEXT NOT NULL) WITHOUT ROWID"
        )
        (count,) = self._file.execute("SELECT count(*) FROM rows").fetchone()
        if count > MOST_ROWS:  # of other versions, which nobody can ask for any more
            self._file.execute("DELETE FROM rows WHERE program != ?", (program_digest(),))
        self._file.commit()

    def _unusable(self, problem: Exception) -> UsageError:
        return UsageError(f"PTO7607: {self._path} cannot keep results: {problem}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def get(self, key: str) -> Row | None:
        """Return the row of a key, None if there is none, or a damaged one: it is computed again,
        and the new one takes its place."""
        try:
            found = self._file.execute("SELECT row FROM rows WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as problem:
            raise self._unusable(problem) from problem
        return row_in(found[0]) if found is not None else None

    def put(self, key: str, row: Row) -> None:
        """Keep a row; it is in the file after a second at most."""
        try:
            self._file.execute(
                "INSERT OR REPLACE INTO rows VALUES (?, ?, ?)",
                (key, program_digest(), json.dumps(row)),
            )
            if time.monotonic() - self._committed > _EVERY:
                self._file.commit()
                self._committed = time.monotonic()
        except sqlite3.Error as problem:
            raise self._unusable(problem) from problem

    def close(self) -> None:
        """Write what is not written yet."""
        try:
            self._file.commit()
        except sqlite3.Error as problem:
            raise self._unusable(problem) from problem
        finally:
            self._file.close()


def key_of(text: str, params: Mapping[str, Any], target: str, request: Request) -> str | None:
    """Return the key of a row; None where it must not be kept."""
    asked = request_digest(request)
    if asked is None:
        return None
    content = json.dumps([program_digest(), text, dict(params), target, asked])
    return hashlib.sha256(content.encode()).hexdigest()


def request_digest(request: Request) -> str | None:
    """Return a digest of what is asked, the content of its files among it; None where a function of
    the caller is."""
    if any(callable(value) for value in request.expect.values()):
        return None
    limits, near = request.limits, request.tolerance
    plain = [
        request.entry, request.level, request.sync, request.compat, request.profile,
        request.block_num, request.seed, request.followed,
        [limits.instructions, limits.seconds, limits.memory],
        {n: _content(v, request.base) for n, v in sorted(request.args.items())},
        {n: _content(v, request.base) for n, v in sorted(request.expect.items())},
        {n: str(t) for n, t in sorted(near.items())},
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _content(value: Any, base: Path | None) -> Any:
    if isinstance(value, str):
        return [value, _file_digest(value, base)]
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(value)
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        return [str(array.dtype), list(array.shape), digest]
    return repr(value)


def _file_digest(spec: str, base: Path | None) -> str:
    """A digest of the file that a SPEC or `file.py:function` names; '' where it names none."""
    name, _ = in_file(spec)
    if not name:
        return ""
    path = Path(name) if base is None else beside(base, name)
    try:
        found = path.stat()
        return _digest_of(str(path), found.st_mtime_ns, found.st_size)
    except (OSError, ValueError):  # a name with a NUL is that of no file
        return "missing"


@lru_cache(maxsize=256)
def _digest_of(path: str, changed: int, size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@lru_cache(maxsize=1)
def program_digest() -> str:
    """Return a digest of ptosim itself: version, modules, data of the ISA."""
    digest = hashlib.sha256(__version__.encode())
    package = Path(__file__).resolve().parents[2]
    for root, suffix in ((package, "*.py"), (isa_directory(), "*.toml")):
        for path in sorted(root.rglob(suffix)):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
