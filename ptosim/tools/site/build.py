"""The site: a folder of pages that need no server and no network; search is a script with its
data."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ptosim.ground import __version__
from ptosim.ground.diagnostics.catalog import (
    Entry,
    Shown,
    catalog,
    shown_by_programs,
    without_program,
)
from ptosim.ground.files import is_file, read_text, write_file
from ptosim.ground.isa.cache import programs_directory
from ptosim.ground.isa.rows import isa
from ptosim.ground.records import NamedTuple
from ptosim.launch.description import sidecar_of
from ptosim.launch.sources import Shipped, shipped_programs
from ptosim.tools.lessons.course import lessons
from ptosim.views import manual
from ptosim.views.operations import section

# The pages of the site as Markdown: manual, lessons, operations, diagnostics, shipped programs.


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
        parts += [f"## A program with it\n\nFound by {shown.found_by()}.", _code(shown.wrong)]
        parts += _right(shown) if shown.right else []
    elif code in without_program():
        parts += [f"No program of one file shows it: {without_program()[code]}"]
    links = [f"[@broken/{name}](../programs/broken/{name}.html)" for name in programs]
    parts += [f"Shown by {', '.join(links)}."] if links else []
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _right(shown: Shown) -> list[str]:
    if shown.right == shown.wrong:
        return ["## Without it", f"With other arguments: `{shown.right_command}`."]
    other = shown.right_command != shown.command
    said = [f"Found right by `{shown.right_command}`."] if other else []
    return ["## Without it", *said, _code(shown.right)]


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


_HERE = Path(__file__).resolve().parent
_ASSETS = ("site.css", "search.js")
_INDEX = "index.html"


def build_site(folder: Path) -> list[Path]:
    """Write the site into a folder, which is made; return the paths of the pages. A program whose
    report is in the folder (`report_of`) links to it."""
    every = [_with_report(page, folder) for page in pages()]
    first = Page(_INDEX, "ptosim", "", _contents(every))
    written = []
    for page in (first, *every):
        path = folder / page.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, _html(page))
        written.append(path)
    for name in _ASSETS:
        write_file(folder / name, (_HERE / name).read_text(encoding="utf-8"))
    write_file(folder / "search-data.js", f"const PAGES = {json.dumps(_data(every))};\n")
    return written


def report_of(name: str) -> str:
    """Return the path of a shipped program's report in the site."""
    return f"programs/{name.removeprefix('@')}.report.html"


def _with_report(page: Page, folder: Path) -> Page:
    path = report_of(page.title)
    if page.group != "Programs" or not (folder / path).is_file():
        return page
    link = f"[What it computes and what it costs](./{Path(path).name})"
    return page._replace(markdown=f"{page.markdown}\n{link}\n")


def _contents(every: Sequence[Page]) -> str:
    """The list of the manual's own first page, with what each page is about, and after it the
    lessons, operations, diagnostics and programs."""
    lines = ["# ptosim", "", f"Version {__version__}: manual, language, lessons and reference.", ""]
    front = manual.pages()[manual.INDEX].partition("\nBegin here\n")
    within = re.sub(r"\]\((\w[\w/]*)\.md", r"](manual/\1.md", f"{front[1]}{front[2]}".strip())
    lines += [_HEADS.sub(r"## \1", within)]
    groups: dict[str, list[Page]] = {}
    for page in every:
        if page.group != "Manual":
            groups.setdefault(page.group, []).append(page)
    for group, members in groups.items():
        lines += ["", f"## {group}", ""]
        lines += [f"- [{_plain(p.title)}]({p.path})" for p in members]
    return "\n".join(lines) + "\n"


_HEADS = re.compile(r"^([A-Z][a-z ]+)$", re.MULTILINE)
"""Lines of the manual's first page that say what the list below them is."""


def _plain(title: str) -> str:
    return re.sub(r"[`\[\]]", "", title)


def _data(every: Sequence[Page]) -> list[list[str]]:
    """What is searched: address, title, group, text. Of operations each has an entry of its own."""
    found = []
    for page in every:
        text = "" if page.names else re.sub(r"[^\w.%!@-]+", " ", page.markdown)
        found.append([page.path, _plain(page.title), page.group, text])
        found += [[f"{page.path}#{_slug(a)}", n, page.group, s] for n, a, s in page.names]
    return found


def _html(page: Page) -> str:
    root = "../" * page.path.count("/")
    body = _rendered(page.markdown)
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{escape(_plain(page.title))}</title><link rel=stylesheet href={root}site.css>"
        f'</head>\n<body data-root="{root}"><header><a href="{root}{_INDEX}">ptosim</a>'
        "<input id=search type=search placeholder=search aria-label=search autocomplete=off>"
        f"</header><ul id=found></ul>\n<main>{body}</main>\n"
        f"<script src={root}search-data.js></script><script src={root}search.js></script>"
        "</body></html>\n"
    )


def _rendered(text: str) -> str:
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(text)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            token.attrSet("id", _slug(following.content))
        for child in token.children or ():
            _relink(child)
    html = reader.renderer.render(tokens, reader.options, {})
    return html.replace("<table>", "<div class=wide><table>").replace("</table>", "</table></div>")


def _relink(token: Token) -> None:
    href = token.attrGet("href")
    if token.type == "link_open" and isinstance(href, str) and "://" not in href:
        base, end = os.path.splitext(href)
        token.attrSet("href", f"{base}.html" if end == ".md" else href)


def _slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text).strip("-").lower()
