"""What an instruction makes of forms: its meaning, or executing it again on other values, without
anything being told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.paths.forms import Env, Form, value_of
from ptosim.ground.diagnostics.model import Severity, Sink
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.enums import DType
from ptosim.ops.scalar.numbers import word_of

_PROBE = 12_345
"""A number that no operation makes by chance."""


def is_of_buffer(context: Mapping[str, Any] | None) -> bool:
    """True for a finding about the end of a buffer: how large it is, the caller decides; in a run
    it is as large as the views of its arguments reach."""
    return "buffer" in (context or {})


class Made(Form):
    """A handle, or a number, that an instruction makes of forms: it is executed again on others."""

    __slots__ = ("given", "replay", "slot")

    def __init__(
        self,
        now: Any,
        given: Mapping[int, Any],
        slot: int,
        replay: Callable[[Mapping[int, Any]], list[Any]],
    ) -> None:
        super().__init__(now, given.values())
        self.given, self.slot, self.replay = given, slot, replay

    def _value(self, env: Env) -> Any:
        values = {slot: value_of(part, env) for slot, part in self.given.items()}
        return self.replay(values)[self.slot]

    def parts(self) -> Any:
        yield from self.given.values()


class Muted:
    """An engine whose findings go nowhere; `is_told` is True if there was one."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._kept: Any = None
        self.is_told = False

    def __enter__(self) -> None:
        self._kept = self._engine.sink, self._engine.reported
        self._engine.sink, self._engine.reported = Sink(), set()

    def __exit__(self, *_: object) -> None:
        told = self._engine.sink
        bad = (d for d in told if d.severity > Severity.NOTE)
        self.is_told = any(not is_of_buffer(d.context) for d in bad)
        self._engine.sink, self._engine.reported = self._kept


def symbol_of(form: Made) -> Form:
    """What tells where a core is as it is, and not computed with it, is the symbol itself."""
    for slot, part in form.given.items():
        others = {**{s: value_of(p, Env({})) for s, p in form.given.items()}, slot: _PROBE}
        is_like_it = isinstance(part, Form) and part.now == form.now
        if is_like_it and form.replay(others)[form.slot] == _PROBE:
            return part
    return form


def meaning_of(inst: Inst) -> tuple[str, DType | None]:
    """The word of what a scalar operation on whole numbers computes, with `u` where it sees them
    without a sign, and the type of its result."""
    if inst.op is None or len(inst.op.results) != 1:
        return "", None
    type_ = inst.op.results[0].type
    if not isinstance(type_, ScalarType) or type_.dtype.is_float:
        return "", None
    word, kind = word_of(inst.op)
    return (word + "u" * (kind == "u") if word else ""), type_.dtype
