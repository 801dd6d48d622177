"""The README and the pages of the manual, taken apart: blocks of code, transcripts, inline code."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ptosim.views import manual
from tests.support.paths import TREE

ROOT = TREE
README = "README"
PROMPT = "(ptosim) "
ELISION = "…"


def texts() -> dict[str, str]:
    """Every page by its name, the README among them."""
    return {README: (ROOT / "README.md").read_text(encoding="utf-8"), **manual.pages()}


def blocks(text: str, language: str = "") -> list[str]:
    """The blocks of code in a language."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [body for named, body in fences if named == language]


def inline(text: str) -> list[str]:
    """What is written as code inside the prose."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


@dataclass
class Transcript:
    """A command and the lines that a page shows of its output."""

    command: str
    shown: list[str] = field(default_factory=list)

    def matches(self, output: list[str]) -> str:
        """What of the shown lines is not in the output, in this order; '' if all is. A line `…` leaves
        out any number of lines."""
        at, floating = 0, False
        for line in self.shown:
            if line == ELISION:
                floating = True
                continue
            if floating and line in output[at:]:
                at = output.index(line, at)
            if at >= len(output) or output[at] != line:
                there = output[at] if at < len(output) else "the end"
                return f"shown: {line}\nthere: {there}"
            at, floating = at + 1, False
        return "" if floating or at == len(output) else f"not shown: {output[at]}"


def transcripts(text: str) -> list[Transcript]:
    """The commands of a page; a block that begins at a prompt of the debugger goes on with the session
    before it."""
    found: list[Transcript] = []
    for block in blocks(text):
        if not block.startswith(("$ ", PROMPT)):
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Transcript(line.removeprefix("$ ")))
            else:
                found[-1].shown.append(line.rstrip())
    return found
