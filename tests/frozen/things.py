"""What users get of a program: each thing is the text (or bytes) of one command, by its name.

Only the command line is used, as the installed script enters it (`ptosim.shell.main`), in one process
after another thing, so that everything behind it may change and any older tree can be asked, too. Data are seeded, arrays are digested whole (`--out`), paths are those of the tree. What is
left out: text reports of `run` (their data are in the JSON), and values of programs that are only
checked (`tests/filecheck`) unless they run as they are. Of the data of conformance the launches of
logical vectors are here; the other cases are no programs, or their text is composed with modules of
ptosim, which must not have a say in what it is compared by."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ptosim
from tests.ops.conformance.data import arrays, document
from tests.ops.conformance.vmi_programs import PROGRAMS
from tests.support.paths import TREE
from tests.support.vmi_text import Text

LAUNCHES = "tests/data/conformance/vmi"
TEMPORARY = ("temp", "ui8", 256)
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
    ):
        for path in sorted((TREE / folder).rglob("*.pto")):
            yield path.relative_to(TREE).as_posix(), kind
    for path in sorted((TREE / "programs").rglob("*.toml")):
        if not path.with_suffix(".pto").exists():
            yield path.relative_to(TREE).as_posix(), "chain"
    for number in sorted(PROGRAMS):
        yield f"{LAUNCHES}/vmi_data_{number:02}.pto", "launch"


_ASSETS = re.compile(r"<style>.*?</style>|<script>.*?</script>", re.DOTALL)


def things_of(path: str, kind: str) -> Iterator[tuple[str, str]]:
    """Each thing of a program with its content. The working directory is the tree."""
    if kind == "launch":
        yield from _launch(path)
        return
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
        yield "report", _page(path)


def _page(path: str) -> str:
    """The page of a program, without the style and the scripts that all pages have."""
    text = _written(("report", path, *LIMITS), "-o", "page.html")
    return _ASSETS.sub("", text)


def _launch(path: str) -> list[tuple[str, str]]:
    """The things of a launch of logical vectors, whose text the tests compose, on recorded data."""
    number, name, on = int(path[-6:-4]), Path(path).name, ("--target", "a5")
    case = document("vmi/manifest.json")["cases"][number - 1]
    text = Text([*((a["role"], a["dtype"], a["shape"][0]) for a in case["args"]), TEMPORARY])
    PROGRAMS[number](text)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(name).write_text(text.text, encoding="utf-8")
        things = [thing for thing in things_of(name, "text") if not thing[0].startswith("run")]
        given = (*on, *_recorded(case))
        ran = _json(("run", name, *given, "--format", "json", *LIMITS))
        values = _values(name, _outputs(ran), given)
        cost = _json(("cost", name, *on, "--format", "json", *LIMITS))
        return [*things, ("run a5", ran), ("values a5", values), ("cost a5", cost)]


def _recorded(case: dict[str, Any]) -> Iterator[str]:
    """Write what the arguments hold before a launch into files here; yields the options."""
    held = arrays(f"vmi/{case['npz']}")
    for argument in case["args"]:
        index, count = argument["index"], argument["shape"][0]
        Path(f"{index}.bin").write_bytes(held[f"in_{index}"].tobytes())
        yield from ("--arg", f"arg{index}={index}.bin:{argument['dtype'].lstrip('s')}:{count}")


def values_of(path: str, options: Words) -> str:
    """The exit code and every byte of every output of a shipped program."""
    ran = _json(("run", path, *options, "--format", "json", *LIMITS))
    return _values(path, _outputs(ran), options)


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
        return f"exit {code}\n{_undated(text).replace(folder, '')}"  # a page shows its command


def _outputs(ran: str) -> list[str]:
    with contextlib.suppress(ValueError):
        return sorted(json.loads(ran.partition("\n")[2]).get("outputs", {}))
    return []


def _json(words: Words) -> str:
    code, out, err = run(words)
    return f"exit {code}\n{_without_times(out)}{err if not out else ''}"


FITTED = ("times", "memory", "limit")
"""Of a cost: what a launch takes as it is measured. It moves with every fit to published rows and
has tests of its own; what is frozen are the cycles."""


def _without_times(out: str) -> str:
    if '"limit":' not in out:
        return out
    with contextlib.suppress(ValueError):
        data = json.loads(out, object_hook=_kept)
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    return out


def _kept(data: dict[str, Any]) -> dict[str, Any]:
    cost = all(name in data for name in FITTED)
    return {k: v for k, v in data.items() if not (cost and k in FITTED)}


def _text(words: Words) -> str:
    code, out, err = run(words)
    return f"exit {code}\n{out}{err}"


def run(words: Words) -> tuple[int, str, str]:
    """Run one command line here; its exit code, and what it printed."""
    from ptosim.shell.main import console

    out, err = io.StringIO(), io.StringIO()
    os.environ["COLUMNS"] = "100"
    sys.argv = ["ptosim", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _code_of(console)
    return code, _undated(out.getvalue()), _undated(err.getvalue())


def _undated(text: str) -> str:
    """Without the version of ptosim: a release is no change of what a program gives."""
    version = ptosim.__version__
    text = text.replace(f'"version": "{version}"', '"version": ""')
    return text.replace(f"ptosim {version}", "ptosim")


def _code_of(console: Callable[[], int | None]) -> int:
    """The exit code that the installed script would end with; older trees raise it."""
    try:
        return console() or 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
