"""Texts of programs, and FILE arguments: a path, `-` for standard input, `@name` for a shipped
program, each with `#part` where the file has several."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from ptosim.ground.errors import UsageError
from ptosim.ground.files import is_file, read_input, read_text, write_file
from ptosim.ground.isa.cache import programs_directory
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.launch.description import read_description, sidecar_of


def read_source(source: str | Path | Source, filename: str | None = None) -> Source:
    """Return the text of a path, or of a string that is a program already.

    A string with a line end, or that names no existing file and looks like a program, is text. A
    byte order mark at the beginning of a file is passed over.
    Raises UsageError for a file that cannot be read or is not UTF-8 text.
    """
    if isinstance(source, Source):
        return source
    path = path_of(source)
    if path is not None:
        part = split_part(str(source))[1]
        text = read_text(path)
        whole = Source(filename or str(path), text)
        whole = whole if whole.is_cpp else Source(whole.name, snippet_of(text))
        return part_named(whole, part) if part else whole
    text = str(source)
    whole = Source(filename or "<text>", text)
    return whole if whole.is_cpp else Source(whole.name, snippet_of(text))


def path_of(source: str | Path | Source) -> Path | None:
    """Return the path of a file that is given by its name, without its part; None for a text."""
    if isinstance(source, Path):
        return Path(split_part(str(source))[0])
    if isinstance(source, str) and (_SHIPPED.fullmatch(source) or _names_file(source)):
        return source_path(source)
    return None


_SHIPPED = re.compile(r"@[\w./-]+(#\S+)?")
"""`@folder/name`, with the part of a file: no program begins like that."""


def snippet_of(text: str) -> str:
    """Return a text of calls of the C++ library as the snippet that they are; others as they
    are."""
    if "%" in text:
        return text
    from ptosim.language.syntax.cpp import from_cpp  # few texts are snippets of C++

    return from_cpp(text) or text


def _names_file(text: str) -> bool:
    if not text or "\n" in text or len(text) > 4096:
        return False
    is_path = text.endswith((".pto", *KERNELS)) or ".pto#" in text
    return is_path or os.path.exists(text)  # `Path.exists` raises for long names


def open_source(name: str) -> Source:
    """Return the program that a FILE argument names: of a file of several parts `FILE#part`. Raises
    UsageError if it cannot be read, or which part is meant is not said."""
    source = open_file(name)
    return source if source.part else the_only(source)


def open_file(name: str) -> Source:
    """Return the file, or the part of one, that a FILE argument names; raises UsageError if it
    cannot be read or has no such part."""
    file, part = split_part(name)
    source = _text_of(sys.stdin.buffer) if file == "-" else read_source(_path(file))
    return part_named(source, part) if part else source


def files_of(names: Sequence[str]) -> list[str]:
    """Return the FILE arguments with every folder as the programs in it and below, sorted: `.pto`,
    and kernels in C++. Raises UsageError for a folder without any."""
    found: list[str] = []
    for name in names:
        folder = Path(name)
        if not name or name.startswith(("@", "-")) or not folder.is_dir():
            found.append(name)
            continue
        programs = sorted(str(path) for path in folder.rglob("*") if _is_program(path))
        if not programs:
            raise UsageError(f"there is no .pto file in `{name}` or below, and no kernel in C++")
        found.extend(programs)
    return found


KERNELS = (".cpp", ".cc", ".cce")
"""Endings of files in C++ that may have kernels."""
_KERNEL = re.compile(r"\b(?:AICORE|__aicore__|__global__)\b|\[aicore\]")


def _is_program(path: Path) -> bool:
    """Is a file of a folder a program? C++ without a kernel is for the host."""
    if path.suffix not in (".pto", *KERNELS) or not path.is_file():
        return False
    if path.suffix == ".pto":
        return True
    try:
        return _KERNEL.search(read_text(path)) is not None
    except UsageError:  # told when it is opened
        return True


def split_part(name: str) -> tuple[str, str]:
    """Return the file and the part of a FILE argument; the part is "" where the name has none, or
    is itself that of a file."""
    file, hash_, part = name.rpartition("#")
    return (file, part) if hash_ and file and not os.path.exists(name) else (name, "")


@lru_cache(maxsize=1)
def _text_of(stream: BinaryIO) -> Source:
    """Standard input can be read once, and each of several targets asks for it."""
    try:
        return Source("<stdin>", snippet_of(read_input(stream).decode("utf-8-sig")))
    except UnicodeDecodeError as problem:
        raise UsageError(f"standard input is not UTF-8 text (byte {problem.start})") from problem


def source_path(name: str) -> Path:
    """Return the path of a FILE argument other than `-`, without its part."""
    return _path(split_part(name)[0])


def _path(file: str) -> Path:
    return shipped(file[1:]) if file.startswith("@") else Path(file)


def described(name: str | Path) -> Path:
    """Return the path of a file that describes launches (a chain, a space of parameters); it may be
    a shipped one, `@model/mlp`. Raises UsageError if there is no such one."""
    if not str(name).startswith("@"):
        return Path(name)
    inner = str(name)[1:]
    path = programs_directory() / f"{inner.removesuffix('.toml')}.toml"
    if path.is_file():
        return path
    root = programs_directory()
    known = [p.relative_to(root).with_suffix("").as_posix() for p in root.rglob("*.toml")]
    raise UsageError(f"there is no shipped file `{name}`", help=_nearest(inner, sorted(known)))


def shipped(name: str) -> Path:
    """Return the path of a shipped program."""
    path = programs_directory() / f"{name.removesuffix('.pto')}.pto"
    if path.is_file():
        return path
    names = shipped_names()
    folder = name.strip("/") + "/"
    inside = [n for n in names if n.startswith(folder)]
    if inside:
        raise UsageError(
            f"`@{name}` is a folder of shipped programs; name one", help=f"it has {_listed(inside)}"
        )
    raise UsageError(f"there is no shipped program `@{name}`", help=_nearest(name, names))


def _nearest(name: str, names: list[str]) -> str:
    """The programs of like names, also where the folder was left out; else what the folders are."""
    close = difflib.get_close_matches(name, names, n=3)
    last = {n.rpartition("/")[2]: n for n in names}
    close += [last[n] for n in difflib.get_close_matches(name.rpartition("/")[2], last, n=3)]
    close = list(dict.fromkeys(close))[:3]
    if close:
        return f"did you mean {_listed(close, 'or')}?"
    folders = dict.fromkeys(n.partition("/")[0] for n in names)
    return f"they are in {_listed(folders)}; `ptosim run @{next(iter(folders))}` lists a folder"


def _listed(names: Iterable[str], word: str = "and") -> str:
    *rest, last = [f"`@{n}`" for n in names]
    return f"{', '.join(rest)} {word} {last}" if rest else last


def shipped_names() -> list[str]:
    """Return the names of all shipped programs."""
    root = programs_directory()
    return sorted(p.relative_to(root).as_posix().removesuffix(".pto") for p in root.rglob("*.pto"))


# A file of several programs: parts between lines `//--- name.pto`, each a program of its own.


_SEPARATOR = re.compile(r"^//---[ \t]*(\S+)[ \t]*\r?$\n?", re.MULTILINE)
_CHARACTER = re.compile(r"[^\r\n]")
_COMMENT = re.compile(r"\s*(//.*)?")


def parts(source: Source) -> list[Source]:
    """Return the programs of a file: the file itself where nothing separates it. What is before the
    first separator is one only if it is more than comments; it has the name `head`."""
    found = list(_SEPARATOR.finditer(source.text))
    if not found or source.part:
        return [source]
    made = []
    if not all(_COMMENT.fullmatch(line) for line in source.text[: found[0].start()].splitlines()):
        made.append(_part(source, "head", 0, found[0].start()))
    ends = [*(m.start() for m in found[1:]), len(source.text)]
    made += [_part(source, m[1], m.end(), end) for m, end in zip(found, ends, strict=True)]
    return made


def _part(source: Source, name: str, start: int, end: int) -> Source:
    text = source.text
    before, after = text[:start], text[end:]
    blanks = [_CHARACTER.sub(" ", around) for around in (before, after)]
    return Source(source.name, f"{blanks[0]}{text[start:end]}{blanks[1]}", name, (before, after))


def part_named(source: Source, name: str) -> Source:
    """Return a part of a file by its name, the end `.pto` may be left out; raises UsageError if
    there is none."""
    known = parts(source)
    for part in known:
        if part.part and name in (part.part, part.part.removesuffix(".pto")):
            return part
    names = ", ".join(part.label for part in known if part.part)
    what = f"parts: {names}" if names else "the file has no lines `//--- name.pto`"
    raise UsageError(f"{source.name} has no part `{name}`", help=what)


def function_named(name: str) -> tuple[str, str] | None:
    """Return the file and the function of `FILE#name` where the file is one program that has such a
    function: that is its entry. None for other names."""
    file, part = split_part(name)
    if not part or file == "-":
        return None
    source = read_source(_path(file))
    if _SEPARATOR.search(source.text) is not None:
        return None
    is_one = re.search(rf"\bfunc\.func\b[^@(]*@{re.escape(part)}\b", source.text) is not None
    return (file, part) if is_one else None


_ALIAS = re.compile(r"^[ \t]*([!#]\w+)[ \t]*=", re.MULTILINE)


def beside(source: Source, other: Source) -> Source:
    """Return two programs as one, each in a module of its own; lines of the other one are counted
    on. Its aliases of types and attributes that the first one has too get another name."""
    text = other.text
    if source.is_cpp or other.is_cpp:
        raise UsageError("a kernel in C++ is no half of a pair that is in two files")
    for name in set(_ALIAS.findall(source.text)) & set(_ALIAS.findall(text)):
        text = re.sub(rf"(?<![\w.#!]){re.escape(name)}\b(?![\w.])", f"{name}_of_peer", text)
    return source.changed(f"{source.text.rstrip()}\n{text}")


def the_only(source: Source) -> Source:
    """Return the program of a file; raises UsageError, with the list, if it has several."""
    known = parts(source)
    if len(known) > 1:
        raise UsageError(
            f"{source.name} has {len(known)} parts; name one",
            help=f"parts: {', '.join(part.label for part in known)}",
        )
    return known[0]


def by_part(source: Source, change: Callable[[Source], str]) -> str:
    """Return the text of a file (or of the part that is meant) after a change of each program; what
    separates them stays."""
    known = parts(source)
    if known == [source] and not source.part:
        return change(source)
    texts = [change(part).lstrip("\n") for part in known]
    if source.part:
        return texts[0]
    made, at = [], 0
    for part, text in zip(known, texts, strict=True):
        start = len(part.around[0])
        made += [source.text[at:start], text]
        at = start + len(part.own)
    return "".join(made)


# The programs that come with the package, one line each, and first programs made from some of them.

FIRST = "new"
"""The folder of the programs that new ones are made from."""
_NAME = re.compile(r"[A-Za-z_]\w*")


class Shipped(NamedTuple):
    """A program, chain or space of parameters: its name with `@`, what kind of file it is, the
    targets that it is for, and what it shows."""

    name: str
    kind: str
    targets: tuple[str, ...]
    summary: str


def shipped_programs() -> list[Shipped]:
    """Return all of them, folder by folder."""
    root = programs_directory()
    found = []
    for path in sorted(root.glob("*/*.toml")):
        name = f"@{path.relative_to(root).with_suffix('').as_posix()}"
        program = path.with_suffix(".pto")
        beside = sidecar_of(program) if is_file(program) else None
        if beside is not None:
            found.append(Shipped(name, "program", tuple(beside.targets), beside.summary))
            continue
        _, content = read_description(path)
        kind = "chain" if "kernels" in content else "space"
        targets = tuple(map(str, content.get("targets", ())))
        found.append(Shipped(name, kind, targets, str(content.get("summary", ""))))
    return found


def kinds() -> list[str]:
    """Return the kinds of first programs."""
    return sorted(p.stem for p in (programs_directory() / FIRST).glob("*.pto"))


def write_first(kind: str, name: str) -> list[Path]:
    """Write a first program: NAME.pto, its sidecar NAME.toml with what must come out (NAME.npz),
    and test_NAME.py, which passes. The name may have a folder. Return the paths.

    Raises UsageError for a name that is no word, and where one of the files is there already."""
    to = Path(name.removesuffix(".pto"))
    if not _NAME.fullmatch(to.name):
        raise UsageError(f"`{to.name}` is no name of a function", help="letters, digits and `_`")
    texts = {
        to.with_suffix(".pto"): _text(kind, "pto", to.name),
        to.with_suffix(".toml"): _text(kind, "toml", to.name),
        to.with_name(f"test_{to.name}.py"): _text(kind, "py.j2", to.name),
    }
    data = to.with_suffix(".npz")
    there = [path for path in (*texts, data) if path.exists()]
    if there:
        raise UsageError(f"{there[0]} is there already", help="choose another name")
    to.parent.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        write_file(path, text)
    write_file(data, (programs_directory() / FIRST / f"{kind}.npz").read_bytes())
    return [*texts, data]


def _text(kind: str, end: str, name: str) -> str:
    text = read_text(programs_directory() / FIRST / f"{kind}.{end}")
    text = text.replace("NAME", name).replace("FILE", f"{name}.pto")
    return text.replace(f"{kind}.npz", f"{name}.npz")
