"""The page around pictures and tables: one file, for light and dark screens, narrow ones, paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from pathlib import Path

_HERE = Path(__file__).resolve().parent


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


CONTENTS = 4
"""Sections from which on a page has a list of them."""


def page(title: str, parts: Sequence[tuple[str, str, bool]], *, heads: Sequence[str] = ()) -> str:
    """Return a whole page of sections: title ("" for none), HTML, whether it is folded; `heads` are
    lines below the title. Without scripts the page is whole, too."""
    kept = [part for part in parts if part[1]]
    body = "".join(section(*part) if part[0] else part[1] for part in kept)
    titles = [name for name, _, _ in kept if name]
    told = "".join(f'<p class="head">{escape(head)}</p>' for head in heads)
    contents = _contents(titles) if len(titles) >= CONTENTS else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_asset('palette.css')}{_asset('style.css')}"
        f"</style></head>\n<body><main><h1>{escape(title)}</h1>{told}\n{contents}{body}</main>"
        f"{_scripts(body)}</body></html>\n"
    )


def _scripts(body: str) -> str:
    uses = {"tables.js": "<table" in body or "chart" in body, "lanes.js": "data-group=" in body}
    return "".join(f"<script>{_asset(name)}</script>" for name, is_used in uses.items() if is_used)


def _contents(titles: Sequence[str]) -> str:
    links = "".join(f'<li><a href="#{anchor(t)}">{escape(t)}</a></li>' for t in titles)
    return f'<nav class="contents" aria-label="contents"><ul>{links}</ul></nav>\n'


def anchor(title: str) -> str:
    """The name of a section in addresses."""
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def fragment(*parts: str) -> str:
    """Return parts for the page of somebody else, a notebook: their style is that of a page and
    reaches nothing around them."""
    palette = _asset("palette.css").replace(":root", ".ptosim")
    own = ".ptosim { background: var(--paper); color: var(--ink); padding: .5rem; }"
    # Twice the name: a notebook's own rules for tables put texts right, and are as strong as once.
    style = f"<style>{palette}{own} .ptosim.ptosim {{ {_asset('style.css')} }}</style>"
    return f'{style}<div class="ptosim">{"".join(parts)}</div>'


def section(title: str, body: str, folded: bool = False) -> str:
    """Return a part of a page with its heading; empty if there is nothing in it."""
    if not body:
        return ""
    head = f"<h2>{escape(title)}</h2>"
    name = anchor(title)
    if folded:
        return (
            f'<section id="{name}"><details><summary>{head}</summary>{body}</details></section>\n'
        )
    return f'<section id="{name}">{head}{body}</section>\n'


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph; `kind` is `good`, `bad`, `doubt` or `note`."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def items(lines: Sequence[str]) -> str:
    """Return a list of lines; nothing for none."""
    body = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{body}</ul>" if body else ""
