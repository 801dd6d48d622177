"""Pages of the manual as `man` reads them (roff): `ptosim help cost --format man | man -l -`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptosim.ground.version import __version__
from ptosim.views import manual


def man_page(page: str) -> str:
    """Return a page of the manual, the list of pages as that of the program itself."""
    name = "ptosim" if page == manual.INDEX else f"ptosim-{page}"
    lines = manual.pages()[page].splitlines()
    title = lines[0].lstrip("# ")
    head = [f'.TH "{name.upper()}" "1" "" "ptosim {__version__}" "Manual of ptosim"', ".SH NAME"]
    head.append(f"{name} \\- {_inline(title)}")
    return "\n".join([*head, ".SH DESCRIPTION", *_body(lines[1:])]) + "\n"


def _body(lines: list[str]) -> Iterator[str]:
    is_code = False
    for line in lines:
        if line.startswith("```"):
            is_code = not is_code
            yield ".PP\n.nf" if is_code else ".fi"
        elif is_code:
            yield _escaped(line)
        else:
            yield from _prose(line)


def _prose(line: str) -> Iterator[str]:
    if line.startswith("#"):
        yield f'.SH "{_inline(line.lstrip("# "))}"'
    elif line.startswith("|"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        if not set("".join(cells)) <= set("-: "):
            yield f".TP\n{_inline(cells[0])}\n{_inline(' - '.join(cells[1:]))}"
    elif line.startswith("- "):
        yield f".IP \\(bu 2\n{_inline(line[2:])}"
    elif not line.strip():
        yield ".PP"
    else:
        yield _inline(line)


def _inline(text: str) -> str:
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    parts = re.split(r"`([^`]+)`", plain)
    made = [rf"\fB{_escaped(p)}\fR" if i % 2 else _escaped(p) for i, p in enumerate(parts)]
    return "".join(made)


def _escaped(text: str) -> str:
    told = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{told}" if told.startswith((".", "'")) else told
