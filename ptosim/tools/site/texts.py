"""The pages of the site as Markdown: manual, lessons, operations, diagnostics, shipped programs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ptosim.ground.diagnostics.catalog import Entry, catalog, shown_by_programs
from ptosim.ground.files import is_file, read_text
from ptosim.ground.isa.data import programs_directory
from ptosim.ground.isa.rows import isa
from ptosim.ground.records import NamedTuple
from ptosim.launch.shipped import Shipped, shipped_programs
from ptosim.launch.sidecar import sidecar_of
from ptosim.tools.lessons.course import lessons
from ptosim.views import manual
from ptosim.views.operations import section


class Page(NamedTuple):
    """A page: its path in the site, its title, the group it is listed under, its Markdown, and the
    names in it that are found besides, each with its anchor and what is said of it."""

    path: str
    title: str
    group: str
    markdown: str
    names: tuple[tuple[str, str, str], ...] = ()


def pages() -> Iterator[Page]:
    """Yield all pages but the first one, group by group."""
    yield from _manual()
    yield from _lessons()
    yield from _operations()
    yield from _diagnostics()
    yield from _programs()


def _manual() -> Iterator[Page]:
    top = manual.paths()[manual.INDEX].parent
    for name, path in manual.paths().items():
        inside = path.relative_to(top).with_suffix(".html").as_posix()
        group = "Language" if path.parent != top else "Manual"
        text = manual.pages()[name]
        yield Page(f"manual/{inside}", text.splitlines()[0].lstrip("# "), group, text)


def _lessons() -> Iterator[Page]:
    for one in lessons():
        hints = "".join(f"{n}. {hint}\n" for n, hint in enumerate(one.hints, 1))
        text = (
            f"{one.text}\n## The program to complete\n\n{_code(one.start)}\n"
            f"`ptosim learn {one.number}` writes it, `ptosim learn {one.number} --check` checks it."
            f"\n\n## Hints\n\n{hints}\n## The solution\n\n{_code(one.solution)}"
        )
        yield Page(f"lessons/{one.name}.html", f"{one.number}. {one.title}", "Lessons", text)


def _operations() -> Iterator[Page]:
    rows = [d for d in map(isa().get, isa().names()) if d is not None]
    rows.sort(key=lambda d: (d.family, d.mnemonic))
    for family, members in groupby(rows, key=lambda d: d.family):
        made = list(members)
        lines = [f"# Operations: {family}"]
        lines += [line for d in made for line in ("", *section(d))]
        names = tuple((d.name, d.name, d.summary) for d in made)
        yield Page(f"ops/{family}.html", family, "Operations", "\n".join(lines), names)


def _diagnostics() -> Iterator[Page]:
    broken = _broken()
    for code, entry in sorted(catalog().items()):
        yield Page(
            f"codes/{code}.html", f"{code}: {entry.title}", "Diagnostics",
            _code_page(code, entry, broken.get(code, [])),
        )  # fmt: skip


def _code_page(code: str, entry: Entry, programs: list[str]) -> str:
    parts = [f"# {code}: {entry.title}", f"{entry.severity}, {entry.origin}", entry.explanation]
    parts += ["## Example", _code(entry.example)] if entry.example else []
    parts += ["## Cure", entry.cure] if entry.cure else []
    shown = shown_by_programs().get(code)
    if shown is not None:
        given = f" with `{shown.options}`" if shown.options else ""
        parts += [f"## A program with it\n\nFound by `ptosim check`{given}.", _code(shown.wrong)]
        parts += ["## Without it", _code(shown.right)] if shown.right else []
    links = [f"[@broken/{name}](../programs/broken/{name}.html)" for name in programs]
    parts += [f"Shown by {', '.join(links)}."] if links else []
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _broken() -> dict[str, list[str]]:
    """The shipped programs that have a code, by the code."""
    found: dict[str, list[str]] = {}
    for path in sorted((programs_directory() / "broken").glob("*.pto")):
        beside = sidecar_of(path)
        for code in beside.codes if beside is not None else ():
            found.setdefault(code, []).append(path.stem)
    return found


def _programs() -> Iterator[Page]:
    for one in shipped_programs():
        inside = one.name.removeprefix("@")
        yield Page(f"programs/{inside}.html", one.name, "Programs", _program(one))


def _program(one: Shipped) -> str:
    path = programs_directory() / one.name.removeprefix("@")
    files = [path.with_suffix(end) for end in (".pto", ".toml")]
    texts = [f"## {f.name}\n\n{_code(read_text(f))}" for f in files if is_file(f)]
    what = f"{one.kind} for {' and '.join(one.targets)}" if one.targets else one.kind
    return "\n\n".join([f"# {one.name}", one.summary or what, what, *texts])


def _code(text: str) -> str:
    return f"```mlir\n{text.strip(chr(10))}\n```\n"
