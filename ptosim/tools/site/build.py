"""The site: a folder of pages that need no server and no network; search is a script with its
data."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ptosim.ground.files import write_file
from ptosim.ground.version import __version__
from ptosim.tools.site.texts import Page, pages

_HERE = Path(__file__).resolve().parent
_ASSETS = ("site.css", "search.js")
_INDEX = "index.html"


def build_site(folder: Path) -> list[Path]:
    """Write the site into a folder, which is made; return the paths of the pages."""
    every = list(pages())
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


def _contents(every: Sequence[Page]) -> str:
    lines = ["# ptosim", "", f"Version {__version__}: manual, language, lessons and reference."]
    groups: dict[str, list[Page]] = {}
    for page in every:
        groups.setdefault(page.group, []).append(page)
    for group, members in groups.items():
        lines += ["", f"## {group}", ""]
        lines += [f"- [{_plain(p.title)}]({p.path})" for p in members]
    return "\n".join(lines) + "\n"


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
