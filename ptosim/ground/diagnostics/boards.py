"""Rules that boards taught, with a wrong and a right program of each: `isa/boards.toml`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.cache import TomlTable, derived, read_toml
from ptosim.ground.isa.dates import DEFAULT_DATE
from ptosim.ground.records import NamedTuple

_FILE = "boards.toml"
CERTAINTIES = {
    "board": "measured on a board and reported",
    "sources": "read in sources",
    "document": "written in a document",
    "open": "a single comment, or a decision of ours",
}
_FLAG = re.compile(r"^( *)(\w+)>(\w+) #(\d)$", re.MULTILINE)
_LINES = r"""\1pto.set_flag[<PIPE_\2>, <PIPE_\3>, <EVENT_ID\4>]
\1pto.wait_flag[<PIPE_\2>, <PIPE_\3>, <EVENT_ID\4>]"""


class BoardRule(NamedTuple):
    """A rule: where it holds, what is told of it, how certain it is and who told it; the codes that
    find it; a program that breaks it and one that does not, with the arguments that show it and the
    date of the language for each, the operations that a rule of a date changes. A rule on reading
    what is found has no codes: what its wrong program breaks is the rule `instead`."""

    id: str
    title: str
    targets: tuple[str, ...]
    severity: str
    certainty: str
    source: str
    text: str
    cure: str
    codes: tuple[str, ...]
    wrong: str
    right: str
    args: Mapping[str, int]
    dates: tuple[str, str]
    of: tuple[str, ...]
    instead: str

    def to_dict(self) -> dict[str, object]:
        """Return the rule as JSON data."""
        return {"rule_id": self.id, **{k: v for k, v in self._asdict().items() if k != "id"}}

    def told(self) -> str:
        """Return the rule as plain text."""
        given = "".join(f" --arg {name}={value}" for name, value in self.args.items())
        words = [
            f"{given}{f' --compat {date}' if date != DEFAULT_DATE else ''}" for date in self.dates
        ]
        other = f"{self.instead}, which its wrong program breaks" if self.instead else "nothing"
        parts = [
            f"{self.id} ({self.severity}, {', '.join(self.targets)}): {self.title}",
            *("\n".join(textwrap.wrap(part, 78)) for part in (self.text, f"Cure: {self.cure}")),
            f"Certainty: {CERTAINTIES[self.certainty]}.\nSource: {self.source}.\n"
            f"Found by: {', '.join(self.codes) or f'{other}: it is about reading findings'}.",
        ]
        if self.wrong:
            for side, text, said in zip(
                ("Wrong", "Right"), (self.wrong, self.right), words, strict=True
            ):
                parts += [f"{side}{f' (with{said})' if said else ''}:"]
                parts += [textwrap.indent(text, "    ")]
        return "\n\n".join(part.rstrip() for part in parts) + "\n"


@lru_cache(maxsize=1)
def board_rules() -> dict[str, BoardRule]:
    """Return every rule by its id. Raises IsaDataError for an unknown certainty."""
    content = read_toml(_FILE)
    return {row["id"]: _rule(row, content["frame"]) for row in content["rule"]}


def changed(date: str) -> dict[str, BoardRule]:
    """Return the rules by which a date after the default one differs, by the operations that they
    change, without their dialect."""
    rules = board_rules().values() if date > DEFAULT_DATE else ()
    return {name: rule for rule in reversed(list(rules)) for name in rule.of}


def _rule(row: TomlTable, frames: TomlTable) -> BoardRule:
    if row["certainty"] not in CERTAINTIES:
        raise IsaDataError(
            f"isa/{_FILE}, {row['id']}: certainty is one of {', '.join(CERTAINTIES)}"
        )
    wrong = _program(row, frames, row["wrong"]) if "wrong" in row else ""
    right = _program(row, frames, row["right"]) if "right" in row else wrong
    return BoardRule(
        row["id"], row["title"], tuple(row["targets"]), row["severity"], row["certainty"],
        row["source"], row["text"], row["cure"], tuple(row["codes"]), wrong, right,
        row.get("args", {}),
        (row.get("wrong_date", DEFAULT_DATE), row.get("right_date", DEFAULT_DATE)),
        tuple(row.get("of", "").split()),
        row.get("instead", ""),
    )  # fmt: skip


def _program(row: TomlTable, frames: TomlTable, lines: str) -> str:
    """The lines of a row in their frame, with flags written out."""
    found = frames.get(row.get("frame", ""), "{lines}").lstrip("\n")
    filled = {"target": row["on"], "elem": row.get("elem", "f32"), "rows": row.get("rows", 8)}
    for word, given in {**filled, "lines": lines.strip("\n")}.items():
        found = found.replace(f"{{{word}}}", str(given))
    return _FLAG.sub(_LINES, found)


@lru_cache(maxsize=1)
def _by_code() -> dict[str, list[tuple[str, list[str]]]]:
    """The ids of the rules that each code tells, with the words of which a finding has one."""
    return derived(_FILE, "by code", _ids)


def _ids(content: TomlTable) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in content["rule"]:
        for code in row["codes"]:
            found.setdefault(code, []).append((row["id"], row.get("words", [])))
    return found


def rule_of(code: str, told: str) -> str | None:
    """Return the id of the rule that a finding tells, by its code and the words of its message,
    labels, notes and help, the longest first; None for most."""
    known = _by_code().get(code, ())
    meant = [
        (len(word), id_)
        for id_, words in known
        for word in words
        if all(part in told for part in word.split(" … "))
    ]
    longest = max(meant, key=lambda pair: pair[0], default=None)
    return longest[1] if longest else next((id_ for id_, words in known if not words), None)
