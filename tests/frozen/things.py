"""What users get of a program: each thing is the text (or bytes) of one command, by its name.

Only the command line is used, in one process after another thing, so that everything behind it may
change. Data are seeded, arrays are digested whole (`--out`), paths are those of the tree. What is
left out: text reports of `run` (their data are in the JSON), and values of programs that are only
checked (`tests/filecheck`) unless they run as they are."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ptosim import __version__

TREE = Path(__file__).parents[2]
TARGETS = ("a2a3", "a5")
PROFILES = ("page", "cpu")
LIMITS = ("--max-instructions", "300000", "--no-cache")
Words = tuple[str, ...]


def programs() -> Iterator[tuple[str, str]]:
    """Every program and the kind it is of, by path below the tree."""
    for folder, kind in (
        ("programs", "shipped"),
        ("tests/regress", "text"),
        ("tests/filecheck", "text"),
        ("tests/data/tune", "text"),
        ("tests/data/conformance", "text"),
    ):
        for path in sorted((TREE / folder).rglob("*.pto")):
            yield path.relative_to(TREE).as_posix(), kind
    for path in sorted((TREE / "programs").rglob("*.toml")):
        if not path.with_suffix(".pto").exists():
            yield path.relative_to(TREE).as_posix(), "chain"


def things_of(path: str, kind: str) -> Iterator[tuple[str, str]]:
    """Each thing of a program with its content. The working directory is the tree."""
    if kind == "chain":
        for target in TARGETS:
            words = ("run", "--chain", path, "--target", target, "--format", "json", *LIMITS)
            yield f"chain {target}", _json(words)
        return
    for target in TARGETS:
        on = ("--target", target)
        yield f"check {target}", _json(("check", path, *on, "--format", "json", *LIMITS))
        ran = _json(("run", path, *on, "--format", "json", *LIMITS))
        yield f"run {target}", ran
        names = _outputs(ran)
        if kind != "shipped":
            continue
        yield f"values {target}", _values(path, names, on)
        yield f"retire {target}", _values(path, names, (*on, "--commit", "retire"))
        for profile in PROFILES:
            yield f"{profile} {target}", _values(path, names, (*on, "--profile", profile))
        ran = ("run", path, *on, "-q", *LIMITS)
        yield f"trace {target}", _written(ran, "--trace", "trace.json")
        for command in ("cost", "map"):
            words = (command, path, *on, "--format", "json", *LIMITS)
            yield f"{command} {target}", _json(words)
        yield f"expand {target}", _text(("expand", path, *on))
    yield "fmt", _text(("fmt", path, "--no-cache"))
    if kind == "shipped":
        yield "report", _written(("report", path, *LIMITS), "-o", "page.html")


def _values(path: str, names: list[str], options: Words) -> str:
    """The exit code and every byte of every output, in hexadecimal."""
    with tempfile.TemporaryDirectory() as folder:
        outs = [w for n in names for w in ("--out", f"{n}={folder}/{names.index(n)}.bin")]
        code, _, err = run(("run", path, *options, "--no-timing", "-q", *outs, *LIMITS))
        files = sorted(Path(folder).iterdir())
        held = "\n".join(f"{file.name} {file.read_bytes().hex()}" for file in files)
        return f"exit {code}\n{held}\n{err.replace(folder, '')}"


def _written(words: Words, option: str, name: str) -> str:
    """The exit code and the file that an option names."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        code, _, _ = run((*words, option, str(file)))
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return f"exit {code}\n{_lasting(text.replace(folder, ''))}"  # a page shows its command


def _outputs(ran: str) -> list[str]:
    with contextlib.suppress(ValueError):
        return sorted(json.loads(ran.partition("\n")[2]).get("outputs", {}))
    return []


def _json(words: Words) -> str:
    code, out, err = run(words)
    return f"exit {code}\n{out}{err if not out else ''}"


def _text(words: Words) -> str:
    code, out, err = run(words)
    return f"exit {code}\n{out}{err}"


def run(words: Words) -> tuple[int, str, str]:
    """Run one command line here; its exit code, and what it printed."""
    from ptosim.shell.main import main

    out, err = io.StringIO(), io.StringIO()
    os.environ["COLUMNS"] = "100"
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return code, _lasting(out.getvalue()), _lasting(err.getvalue())


def _lasting(text: str) -> str:
    """A text without the version: another one is no reason to freeze anew."""
    return text.replace(f"ptosim {__version__}", "ptosim").replace(f'"{__version__}"', '"' * 2)
