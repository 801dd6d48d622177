"""The programs that come with the package, one line each, and first programs made from some of
them."""

from __future__ import annotations

import re
from pathlib import Path

from ptosim.ground.errors import UsageError
from ptosim.ground.files import is_file, read_text, write_file
from ptosim.ground.isa.data import programs_directory
from ptosim.ground.records import NamedTuple
from ptosim.launch.description import read_description, sidecar_of

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
