"""The page around pictures and tables: one file, for light and dark screens, narrow ones, paper."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path

_HERE = Path(__file__).resolve().parent


LONG = 16
"""Rows of a table above which it is scrolled by itself on a screen; on paper it is whole."""


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def page(title: str, parts: Iterable[str], *, head: str = "", scripts: bool = False) -> str:
    """Return a whole page of HTML parts; `head` is said below the title. With `scripts` it has what
    moves timelines; without it shows them whole."""
    script = f"<script>{_asset('lanes.js')}</script>" if scripts else ""
    told = f'<p class="head">{escape(head)}</p>' if head else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_asset('palette.css')}{_asset('style.css')}</style></head>\n<body><main>"
        f"<h1>{escape(title)}</h1>{told}\n{''.join(parts)}</main>{script}</body></html>\n"
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


def html_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    drop: Collection[str] = (),
    title: str = "",
) -> str:
    """Return a table. Columns are named as for text (`>` is flush right); those of `drop` give way
    on narrow pages. A table that is still too wide is scrolled by itself."""
    names = [c.removeprefix(">") for c in columns]
    kinds = [
        " ".join(word for word, is_so in (("n", c[:1] == ">"), ("may", n in drop)) if is_so)
        for c, n in zip(columns, names, strict=True)
    ]
    marks = [f' class="{kind}"' if kind else "" for kind in kinds]
    head = "".join(f"<th{m}>{_cell(n)}</th>" for m, n in zip(marks, names, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{m}>{_cell(c)}</td>' for m, c in zip(marks, row, strict=True))}</tr>\n"
        for row in rows
    )
    kind = "scroll long" if body.count("<tr>") > LONG else "scroll"
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return (
        f'<div class="{kind}"><table>{caption}<thead><tr>{head}</tr></thead><tbody>\n{body}'
        "</tbody></table></div>\n"
    )


def _cell(content: object) -> str:
    return escape("" if content is None else str(content)).replace("\n", "<br>")
