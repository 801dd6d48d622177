"""A cache of data derived from `isa/`, kept with `marshal` in the user's cache folder.

Only a folder that belongs to the user and that nobody else can write is trusted; without one the
data are derived anew each time. `marshal` reads plain data and, unlike pickle, never runs code."""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import marshal
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ptosim.ground import __version__
from ptosim.ground.errors import IsaDataError, UsageError
from ptosim.ground.limits import current

Data = TypeVar("Data")

LARGEST = 32 * 1024 * 1024
"""Bytes that the folder may hold; the data of one version are 1.5 MB."""
_BLOCK = 4096
"""Bytes that a small file takes on a disk."""
UNUSED_DAYS = 30
"""Days after which a file that nobody used is removed."""

_TEMPORARY = "ptosim-unfinished-"
_NAME = re.compile(rf".+-[0-9a-f]{{24}}\.bin|{_TEMPORARY}\w+")
"""Files of the cache: whatever else is in the folder is somebody's own."""
_FORMAT = "digest, marshal"
"""What a file holds; other formats have other names."""


def cache_directory() -> Path | None:
    """Return the folder of the user's cache, None where there is none that can be trusted."""
    return _usable(os.environ.get("PTOSIM_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME"))


@lru_cache(maxsize=4)
def _usable(override: str | None, caches: str | None) -> Path | None:
    """The folder that the environment names, made if need be; None if it cannot be trusted."""
    if override == "":
        return None
    if override:
        folder = Path(override)
    elif caches:
        folder = Path(caches) / "ptosim"
    else:
        try:
            folder = Path.home() / ".cache" / "ptosim"
        except RuntimeError:
            return None
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError:
        return None
    if hasattr(os, "getuid") and (
        status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        return None
    return folder


def cached(kind: str, inputs: bytes, derive: Callable[[], Data]) -> Data:
    """Return `derive()`, or what an earlier call with the same inputs returned.

    `kind` names the data, `inputs` is everything they depend on. The result must be plain data
    (numbers, strings, tuples, lists, dicts), and not None.
    """
    known = recalled(kind, inputs)
    if known is None:
        known = derive()
        keep(kind, inputs, known)
    return known


def recalled(kind: str, inputs: bytes) -> Any:
    """Return what was kept under a kind and inputs; None if nothing is, or what is was changed."""
    path = _path(kind, inputs)
    if path is None:
        return None
    with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
        return marshal.loads(_verified(path.read_bytes()))
    return None


_tidied: set[Path] = set()
"""Folders that this process has tidied up: a full one is looked through in a tenth of a second, and
a file can have hundreds of entries."""


def keep(kind: str, inputs: bytes, data: Any, *, one_of_many: bool = False) -> None:
    """Keep plain data under a kind and inputs, where there is a folder that can be trusted. Of what
    is `one_of_many` each 64th tidies the folder up, once in a process."""
    path = _path(kind, inputs)
    if path is None:
        return
    with contextlib.suppress(OSError):
        plain = marshal.dumps(data)
        _write_atomically(path, hashlib.sha256(plain).digest() + plain)
        if not one_of_many or (int(path.stem[-2:], 16) < 4 and path.parent not in _tidied):
            _tidied.add(path.parent)
            _tidy(path.parent, path)


def _path(kind: str, inputs: bytes) -> Path | None:
    folder = cache_directory()
    if folder is None:
        return None
    digest = hashlib.sha256(inputs)
    digest.update(f"{__version__}|{sys.version}|{_FORMAT}".encode())
    return folder / f"{kind}-{digest.hexdigest()[:24]}.bin"


def _verified(content: bytes) -> bytes:
    """What follows the digest in a file. Raises ValueError if the digest is another one: a file
    that was cut or changed must not break the installation until somebody deletes it."""
    size = hashlib.sha256().digest_size
    if hashlib.sha256(content[size:]).digest() != content[:size]:
        raise ValueError("the file was changed")
    return content[size:]


def _write_atomically(path: Path, data: bytes) -> None:
    # A name of the process's own: `tempfile` would load five modules.
    temporary = path.with_name(f"{_TEMPORARY}{os.getpid()}_{path.stem[-24:]}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _tidy(folder: Path, keep: Path) -> None:
    """Remove what nobody has used for `UNUSED_DAYS`, then the longest unused beyond `LARGEST`, and
    with it what a killed process left."""
    oldest = time.time() - UNUSED_DAYS * 24 * 3600
    with os.scandir(folder) as found:
        ours = [f for f in found if f.name != keep.name and _NAME.fullmatch(f.name)]
    files = [(f.stat(), f.path) for f in ours]
    used = sorted((max(s.st_atime, s.st_mtime), max(s.st_size, _BLOCK), p) for s, p in files)
    room = LARGEST - sum(size for _, size, _ in used)
    for last_use, size, path in used:
        if last_use >= oldest and room >= 0:
            return
        Path(path).unlink(missing_ok=True)
        room += size


# Reading the files of `isa/`: TOML, kept as plain data in the cache between runs.

_PACKAGE = Path(__file__).resolve().parents[2]


def _data_directory(variable: str, packaged: str, checkout: str) -> Path:
    override = os.environ.get(variable)
    if override:
        return Path(override)
    in_wheel = _PACKAGE / packaged
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / checkout


@lru_cache(maxsize=1)
def isa_directory() -> Path:
    """Return the folder of the ISA data: `PTOSIM_ISA_DIR`, the wheel's copy, or the checkout's."""
    return _data_directory("PTOSIM_ISA_DIR", "_isa", "isa")


@lru_cache(maxsize=1)
def programs_directory() -> Path:
    """Return the folder of the shipped programs (`@name` on the command line)."""
    return _data_directory("PTOSIM_PROGRAMS_DIR", "_programs", "programs")


TomlTable = dict[str, Any]
"""A table of a TOML file; what its keys hold, the reader of the file knows."""


def read_toml(name: str) -> TomlTable:
    """Return the content of a TOML file of `isa/`. Raises IsaDataError if it cannot be read."""
    return derived(name, "", lambda content: content)


def derived(name: str, kind: str, derive: Callable[[TomlTable], Data]) -> Data:
    """Return what `derive` makes of a TOML file of `isa/`, plain data, kept in the cache as `kind`.
    Raises IsaDataError if the file cannot be read."""
    path = isa_directory() / name
    try:
        raw = path.read_bytes()
        words = "-".join(filter(None, (kind, name.replace("/", "-"))))
        return cached(words, raw, lambda: derive(_parsed(raw)))
    except OSError as problem:
        raise IsaDataError(f"cannot read the ISA data file {path}: {problem.strerror}") from problem
    except ValueError as problem:  # of TOML, and of its encoding
        raise IsaDataError(f"{path}: {problem}") from problem


def _parsed(raw: bytes) -> TomlTable:
    import tomllib  # costs as much as reading all of `isa/` from the cache, which is the usual way

    return tomllib.loads(raw.decode("utf-8"))


def read_folder(folder: str) -> dict[str, TomlTable]:
    """Return the content of every TOML file of a folder of `isa/`, by its name without the ending.
    Raises IsaDataError if one cannot be read."""
    return {n.split("/")[-1].removesuffix(".toml"): read_toml(n) for n in toml_names(folder)}


def toml_names(folder: str) -> list[str]:
    """Return the TOML files of a folder of `isa/`, as names that `read_toml` takes, sorted."""
    return sorted(f"{folder}/{p.name}" for p in (isa_directory() / folder).glob("*.toml"))


# The files of this installation, as a key of what is derived from them and kept.


@lru_cache(maxsize=4)
def installed(*rooms: str) -> str | None:
    """Return a digest of the files of some rooms of the package, without a name all of them and the
    data, by name, time of the last change and size: whoever changes a line, or installs another
    version, gets another one. None where they cannot be listed: in an archive, or without the
    data."""
    with contextlib.suppress(OSError):
        folders = [str(_PACKAGE / room) for room in rooms] or [str(_PACKAGE), str(isa_directory())]
        return hashlib.sha256(ascii(_files(folders)).encode()).hexdigest()
    return None


def _files(folders: list[str]) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".toml", ".lark")):
                    status = entry.stat()
                    found.append((entry.path, status.st_mtime_ns, status.st_size))
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    return sorted(found)


# Python of the caller: functions, files and lines that ptosim executes and did not write.


class Left(Exception):
    """Python of the caller wanted to end the process."""


@contextmanager
def of_the_caller() -> Iterator[None]:
    """Let what happens inside fail, and nothing more: `sys.exit` in a function of the caller is a
    fault of that function, and what it was called for has a word to say on it. Raises Left;
    UsageError where the limits are those for strangers."""
    if not current().trusts:
        raise UsageError(
            "Python of the caller is not executed with --untrusted",
            help="leave the option away if the file is yours",
        )
    kept = {name: getattr(builtins, name) for name in ("exit", "quit") if hasattr(builtins, name)}
    try:
        for name in kept:  # those of the interpreter close standard input, which others read
            setattr(builtins, name, _leave)
        yield
    except SystemExit as stop:
        raise Left(f"it ends the process ({stop.code!r:.40})") from stop
    except GeneratorExit as stop:
        raise Left("it raises GeneratorExit") from stop
    finally:
        for name, function in kept.items():
            setattr(builtins, name, function)


def _leave(code: object = None) -> NoReturn:
    raise SystemExit(code)
