"""What an instruction makes of forms: its meaning, or executing it again on other values, without
anything being told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.paths.forms import Env, Form, value_of
from ptosim.ground.diagnostics.model import Diagnostic, Severity, Sink
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.schema import DType
from ptosim.ground.source import Span
from ptosim.ops.scalar.numbers import word_of

_PROBE = 12_345
"""A number that no operation makes by chance."""


def is_of_buffer(context: Mapping[str, Any] | None) -> bool:
    """True for a finding about the end of a buffer: how large it is, the caller decides; in a run
    it is as large as the views of its arguments reach."""
    return "buffer" in (context or {})


_OTHERS = ("PTO71", "PTO8")
"""Findings that operands do not decide: on bytes without a value, which what was written before
decides, and on what this version does not execute."""


def _is_bound(found: Diagnostic) -> bool:
    return not is_of_buffer(found.context) and not found.code.startswith(_OTHERS)


Replay = Callable[[tuple[int, ...], tuple[Any, ...]], Mapping[int, Any]]
"""Executes an instruction with other values in some slots; gives what it writes, by slot."""


class Made(Form):
    """A handle, or a number, that an instruction makes of forms: it is executed again on others."""

    __slots__ = ("given", "place", "replay", "slot")

    def __init__(
        self,
        now: Any,
        given: Mapping[int, Any],
        slot: int,
        replay: Replay,
        place: tuple[int, int],
    ) -> None:
        """`place` is the instruction's, and the number of the core that executes it again, if one
        does."""
        super().__init__(now, given.values())
        self.given, self.slot, self.replay, self.place = given, slot, replay, place

    def how(self, env: Env) -> tuple[Callable[..., Any], Sequence[Any]]:
        """Executing the instruction again."""
        replay, slot, taken = self.replay, self.slot, tuple(self.given)
        return (
            lambda *values: replay(taken, values)[slot],
            tuple(self.given.values()),
        )

    def parts(self) -> Any:
        yield from self.given.values()

    def likeness(self, of: Callable[[Any], int]) -> tuple[Any, ...]:
        return Made, self.place, self.slot, *self.given, *map(of, self.given.values())


class _Nowhere(Sink):
    """Takes findings of which nobody asks, before they are made."""

    def emit(self, diagnostic: Diagnostic) -> None:
        pass

    def report(self, code: str, message: str, span: Span | None = None, **details: Any) -> None:
        pass


_NOWHERE = _Nowhere()


class Muted:
    """An engine whose findings go nowhere, on the arguments of its launch that were `kept`;
    `told` is the message of the first one about a bound, unless nobody `asks` for it."""

    __slots__ = ("_asks", "_engine", "_kept", "_launch", "_of", "_other", "told")

    def __init__(self, engine: Any, launch: Any, kept: Any, *, asks: bool = True) -> None:
        self._engine, self._asks = engine, asks
        self._launch, self._of = launch, kept
        self._kept: Any = None
        self._other: Any = None
        self.told = ""

    def __enter__(self) -> None:
        engine, launch = self._engine, self._launch
        self._kept = engine.sink, engine.reported
        engine.sink, engine.reported = Sink() if self._asks else _NOWHERE, set()
        if launch.engine is not engine:
            self._other = launch.put_back(self._of)

    def __exit__(self, *_: object) -> None:
        engine = self._engine
        told = engine.sink.diagnostics
        if told:
            bad = (d for d in told if d.severity > Severity.NOTE)
            self.told = next((d.message for d in bad if _is_bound(d)), "")
        engine.sink, engine.reported = self._kept
        if self._other is not None:
            self._launch.put_back(self._other)


def symbol_of(form: Made) -> Form:
    """What tells where a core is as it is, and not computed with it, is the symbol itself."""
    for slot, part in form.given.items():
        others = {**{s: value_of(p, Env({})) for s, p in form.given.items()}, slot: _PROBE}
        is_like_it = isinstance(part, Form) and part.now == form.now
        made = form.replay((*others,), (*others.values(),)) if is_like_it else {}
        if made.get(form.slot) == _PROBE:
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
