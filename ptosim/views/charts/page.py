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


def page(title: str, body: str, *, head: str = "", scripts: bool = False) -> str:
    """Return a whole page around HTML; `head` is said below the title. With `scripts` it has what
    moves timelines; without it shows them whole."""
    script = f"<script>{_asset('lanes.js')}</script>" if scripts else ""
    told = f'<p class="head">{escape(head)}</p>' if head else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_asset('palette.css')}{_asset('style.css')}</style></head>\n<body><main>"
        f"<h1>{escape(title)}</h1>{told}\n{body}</main>{script}</body></html>\n"
    )


def fragment(*parts: str) -> str:
    """Return parts for the page of somebody else, a notebook: their style is that of a page and
    reaches nothing around them."""
    palette = _asset("palette.css").replace(":root", ".ptosim")
    own = ".ptosim { background: var(--paper); color: var(--ink); padding: .5rem; }"
    style = f"<style>{palette}{own} .ptosim {{ {_asset('style.css')} }}</style>"
    return f'{style}<div class="ptosim">{"".join(parts)}</div>'


def section(title: str, *parts: str) -> str:
    """Return a part of a page with its heading; empty if there is nothing in it."""
    body = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{body}</section>\n" if body else ""


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph; `kind` is `good`, `bad`, `doubt` or `note`."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def items(lines: Sequence[str]) -> str:
    """Return a list of lines; nothing for none."""
    body = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{body}</ul>" if body else ""
