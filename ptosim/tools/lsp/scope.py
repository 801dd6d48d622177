"""What can be named at a place of a text that was changed since it was checked: the values of the
checked one as far as they are before the change, and those that the change itself makes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from ptosim.ground.ir.types import ScalarType, TileType, Type
from ptosim.ground.records import dataclass
from ptosim.language.syntax.types import parse_type
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import Made
from ptosim.tools.lsp.statements import pieces

_MADE = re.compile(r"^[ \t]*(%[\w$.-]+(?:\s*,\s*%[\w$.-]+)*)\s*=([^\n]*)", re.MULTILINE)
_TARGET = re.compile(r'pto\.target_arch\s*=\s*"(a2a3|a5)"')
_ONE = re.compile(r"%[\w$.-]+")


@dataclass(slots=True, eq=False)
class Named:
    """A value: its name, its type (None of one that could not be read), and where it is made."""

    name: str
    type: Type | None
    made: Made | None
    written: str = ""


class Scope:
    """The values at an offset of a text, by an older version of it that was checked."""

    def __init__(self, document: Document, text: str, offset: int) -> None:
        self.document = document
        self.text = text
        self.offset = offset

    @cached_property
    def target(self) -> str:
        """The target that is chosen, or that the text says; '' where nobody says one."""
        said = _TARGET.search(self.text)
        return self.document.settings.target or (said[1] if said is not None else "")

    def types_near(self) -> list[str]:
        """The types that were written before the place, the last ones first."""
        near = pieces(self.text[max(self.offset - 4000, 0) : self.offset])
        return list(dict.fromkeys(p.text for p in reversed(near) if p.kind == "type"))

    @cached_property
    def _changed(self) -> tuple[int, int, int]:
        """The first character that differs, and its ends in the old and the new text."""
        old, new = self.document.text, self.text
        begin = _alike(old, new)
        tail = _alike_at_end(old[begin:], new[begin:])
        return begin, len(old) - tail, len(new) - tail

    def checked_place(self, offset: int) -> int:
        """Return the place in the text that was checked of one in this text."""
        begin, old_end, new_end = self._changed
        if offset <= begin:
            return offset
        return offset - new_end + old_end if offset >= new_end else begin

    @cached_property
    def values(self) -> Mapping[str, Named]:
        """The values by name, the last ones first."""
        begin, _, new_end = self._changed
        found: dict[str, Named] = {}
        here = self.text.rfind("\n", 0, self.offset) + 1
        fresh = self.text[self.text.rfind("\n", 0, begin) + 1 : min(here, new_end)]
        for line in _MADE.finditer(fresh):
            types = [p.text for p in pieces(line[2]) if p.kind == "type"]
            for one in _ONE.findall(line[1]):
                found[one] = Named(one, None, None, types[-1] if types else "")
        found = dict(reversed(found.items()))
        for made in self.document.names.visible(self.checked_place(self.offset)):
            value = made.value
            kind = value.type if value is not None else None
            known = found.get(made.word.text)
            if known is None or (known.type is None and not known.written):
                found[made.word.text] = Named(made.word.text, kind, made)
        return found

    @cached_property
    def mentions(self) -> Counter[str]:
        """How often each value is named in the text near before the place."""
        return Counter(_ONE.findall(self.text, max(self.offset - 30_000, 0), self.offset))

    def type_of(self, name: str) -> str:
        """Return the type of a value as the text has it, '' if it is not known."""
        named = self.values.get(name)
        if named is None:
            return ""
        if not named.written and named.made is not None:
            named.written = self._written(named, named.made)
        return named.written

    def is_constant(self, name: str) -> bool:
        """Whether a value is the same in every run."""
        named = self.values.get(name)
        value = named.made.value if named is not None and named.made is not None else None
        return value is not None and value.const is not None

    def is_room(self, name: str) -> bool:
        """Whether a value is a tile that is made empty: nothing but addresses makes it."""
        named = self.values.get(name)
        if named is None or not isinstance(named.type, TileType) or named.made is None:
            return False
        op = named.made.op
        return op is not None and all(isinstance(o.type, ScalarType) for _, o in op.operands())

    def kind_of(self, written: str) -> Type:
        """Return the type that a text means, with the aliases of the module."""
        aliases = self.document.resolved.module.type_aliases
        return parse_type(aliases.get(written, written)).type

    def _written(self, named: Named, made: Made) -> str:
        text = self.document.text
        if made.value is not None and made.value.is_argument:
            after = pieces(text[made.word.end : text.find("\n", made.word.end) + 1])
            if len(after) > 1 and after[0].text == ":" and after[1].kind == "type":
                return after[1].text
        elif made.op is None or len(made.op.results) == 1:
            line = text[made.word.end : text.find("\n", made.word.end) + 1]
            kinds = [p.text for p in pieces(line) if p.kind == "type"]
            if kinds:
                return kinds[-1]
        return str(named.type) if named.type is not None else ""


def _alike(old: str, new: str) -> int:
    """Return how many characters two texts begin with together."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _alike_at_end(old: str, new: str) -> int:
    """Return how many characters they end with together."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle : len(old) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low
