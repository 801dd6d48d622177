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
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.cache import cache_directory
from ptosim.ground.isa.data import isa_directory
from ptosim.ground.version import __version__
from ptosim.launch.array_files import beside, in_file
from ptosim.tools.search.pareto import row_in
from ptosim.tools.search.point import Row
from ptosim.tools.search.request import Request

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
