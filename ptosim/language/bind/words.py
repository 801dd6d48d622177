"""Operations of words only, as flags and barriers are: one is bound as the last one that said the
same, with its own words as operands."""

from __future__ import annotations

from typing import Any

from ptosim.ground.ir.core import Node, Operand, Operation, Tok

_Words = list[Tok]
_ASKED_APART = frozenset(("allocates_private", "launches"))
"""Traits of operations whose operands name something else than values."""


class OfWords:
    """What binding found out about operations of words only, by what they say."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[Operation, dict[str, Any]]] = {}

    @staticmethod
    def of(op: Operation) -> _Words | None:
        """Return the words of an operation that has nothing else: no value, type, attribute,
        region and result; None for others."""
        if op.form != "items" or op.types or op.attrs or op.regions or op.result_tokens:
            return None
        if op.arrow is not None or op.clauses or op.props:
            return None
        words: _Words = []
        for item in op.items:
            words += item.parts if item.__class__ is Node and item.kind == "list" else (item,)
        is_plain = all(word.__class__ is Tok and word.type != "SSA" for word in words)
        return words if is_plain else None

    def bind(self, op: Operation, words: _Words) -> bool:
        """Bind an operation as one that says the same; False if there was none."""
        known = self._known.get(_said(op, words))
        if known is None:
            return False
        like, operands = known
        op.variant, op.attributes = like.variant, dict(like.attributes)
        op.bound = {name: _anew(bound, words) for name, bound in operands.items()}
        return True

    def keep(self, op: Operation, words: _Words) -> None:
        """Remember how an operation was bound, if its words are all that its operands are."""
        if op.variant is None or op.results or not _ASKED_APART.isdisjoint(op.traits):
            return
        at = {id(word): number for number, word in enumerate(words)}
        operands = {name: _by_number(bound, at) for name, bound in op.bound.items()}
        if _OTHER not in operands.values():
            self._known[_said(op, words)] = op, operands


_OTHER = object()


def _said(op: Operation, words: _Words) -> tuple[Any, ...]:
    lists = tuple(len(item.parts) if item.__class__ is Node else -1 for item in op.items)
    return op.name, lists, *((word.type, word.value) for word in words)


def _by_number(bound: Any, at: dict[int, int]) -> Any:
    """An operand with the number of its word in its place."""
    if bound is None or bound is True:
        return bound
    number = at.get(id(bound.tok)) if isinstance(bound, Operand) else None
    return _OTHER if number is None else (number, bound)


def _anew(bound: Any, words: _Words) -> Any:
    if bound.__class__ is not tuple:
        return bound
    number, operand = bound
    return Operand(words[number], None, operand.type, operand.const)
