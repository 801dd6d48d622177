"""Parsing without the passes after it."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Diagnostic, Sink
from ptosim.ground.ir.core import Module, Operation
from ptosim.ground.source import Source
from ptosim.language.syntax.parser import parse


def parsed(text: str) -> tuple[Module, list[Diagnostic]]:
    """Parse a text; return the module and the findings."""
    sink = Sink()
    module = parse(Source("test.pto", text), sink)
    return module, list(sink)


def clean(text: str) -> Module:
    """Parse a text that must have no findings."""
    module, findings = parsed(text)
    assert not findings, [(d.code, str(d.span), d.message) for d in findings]
    return module


def only_op(text: str) -> Operation:
    """Parse a text of one operation."""
    (op,) = clean(text).ops
    return op
