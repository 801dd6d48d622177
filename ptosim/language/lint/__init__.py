"""What works and could be better, as far as the text alone shows it: notes of origin `lint`."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.ir.program import ResolvedModule
from ptosim.language.lint import loops, published, unused

_LINTS = (
    unused.unused,
    unused.unread,
    unused.overwritten,
    loops.invariant_loads,
    published.unpublished,
)


def lints(resolved: ResolvedModule) -> list[Diagnostic]:
    """Return what could be better in the functions of a module that has no errors."""
    source = resolved.module.source
    functions = [f for f in resolved.functions.values() if f.has_body and not f.implicit]
    found = [each for lint in _LINTS for function in functions for each in lint(function, source)]
    return [*unused.arguments(functions, source), *found]
