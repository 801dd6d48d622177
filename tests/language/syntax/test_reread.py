"""A text that is changed again and again is checked where it was changed: what comes out is what a
check of the whole text says, for any sequence of changes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ptosim.ground.ir.core import Operand, Tok
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions, run_frontend
from ptosim.language.syntax import reread
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.language.syntax.reread import reader
from ptosim.launch.sources import open_source, shipped_names
from tests.bench.programs import check_kernel

PIECES = ("%", "pto.tadd", "(", ")", " : ", "\n", "7", "{", "}", "x", ",", "<", ">", "=", '"', "//")


def whole(text: str) -> Front:
    return run_frontend(Source("k.pto", text), FrontOptions())


def again(text: str, before: Front | None) -> Front:
    module = before.module if before is not None else None
    return run_frontend(Source("k.pto", text), FrontOptions(), reader(module))


def told(front: Front) -> list[Any]:
    """What a check found out: findings, operations with their operands, values, places."""
    said: list[Any] = [found.to_dict() for found in front.sink]
    for op in front.resolved.ops:
        made = [v for r in op.regions for b in r.blocks for v in b.values]
        values = [(v.name, str(v.type), v.start, v.const, v.uses) for v in (*op.results, *made)]
        ends = [region.end for region in op.regions]
        said.append((op.name, op.start, op.name_end, op.end, ends, op.queue, op.loc, values))
        said.append([(name, _operand(bound)) for name, bound in op.bound.items()])
        said.append({k: str(v) for k, v in op.attributes.items()})
        said.append(
            [(t.value, t.start) for t in (*op.types, *op.ins, *op.outs) if isinstance(t, Tok)]
        )
    said.append([(c.value, c.start) for c in front.module.comments])
    said += [front.resolved.entries, sorted(front.module.skipped_names), str(front.settings)]
    for plan in front.plans.values():
        placed = [(v.name, v.start, at) for v, at in plan.placement.values.items()]
        said += [placed, [str(p) for p in plan.placement.placed]]
    if not front.sink.has_errors:
        said.append(print_module(front.module))
    return said


def _operand(bound: Any) -> Any:
    if isinstance(bound, list):
        return [_operand(one) for one in bound]
    if not isinstance(bound, Operand):
        return bound if isinstance(bound, (str, bool, type(None))) else type(bound).__name__
    value = bound.value
    named = (value.name, value.start) if value is not None else None
    return getattr(bound.tok, "start", None), named, str(bound.type), str(bound.const)


def changed(text: str, random_: random.Random) -> str:
    """A key, a word, a line that goes, comes twice, or changes its place."""
    at = random_.randrange(len(text))
    kind = random_.random()
    if kind < 0.25:
        return text[:at] + text[at + random_.randrange(1, 4) :]
    if kind < 0.6:
        return text[:at] + random_.choice(PIECES) + text[at:]
    lines = text.split("\n")
    line = random_.randrange(len(lines))
    if kind < 0.7:
        return "\n".join(lines[:line] + lines[line + 1 :])
    if kind < 0.85:
        other = random_.choice(lines)
        return "\n".join([*lines[:line], other, *lines[line:]])
    if kind < 0.95:
        half = lines[line][: random_.randrange(len(lines[line]) + 1)]
        return "\n".join([*lines[:line], half, *lines[line:]])
    return "\n".join([*lines[:line], "// a comment", *lines[line:]])


NAMES = shipped_names()


@pytest.mark.sampled(4, 8)
@pytest.mark.parametrize("name", NAMES)
def test_any_changes_are_checked_as_the_whole_text_is(name):
    text = good = open_source(f"@{name}").text
    random_ = random.Random(name)
    front = again(text, None)
    for number in range(18):
        text = good if number % 6 == 5 else changed(text, random_)
        front = again(text, front)
        assert told(front) == told(whole(text)), text


LINES = (
    "", "    p", "    pto.", "    pto.tadd", "    pto.tadd ins(", "    pto.tadd ins(%a, %b", "    pto.tadd ins(%a, %b : !k",
    "    pto.tadd ins(%a, %nothing : !pto.tile_buf<vec, 16x64xf32>", "    %new = arith.constant 5 : index", "    // words",
    "    scf.for %i = %c0 to %c1 step %c1 {\n    }", "    }", "    {", "    pto.tabs ins(%a : f32) outs(%b : f32)", "    %c0 = arith.constant 1 : index",
)  # fmt: skip


@pytest.mark.parametrize("place", [0.3, 0.9])
def test_lines_that_are_typed_are_read_alone(place, monkeypatch):
    """And where they are complete or only half typed, the rest of the text is not parsed again."""
    lines = check_kernel(60).split("\n")
    at = int(len(lines) * place)
    front = again("\n".join(lines), None)
    sizes: list[int] = []
    monkeypatch.setattr(
        reread,
        "parse",
        lambda source, sink: (
            sizes.append(len(source.text.strip().split("\n"))),
            parse(source, sink),
        )[1],
    )
    for line in LINES:
        text = "\n".join([*lines[:at], line, *lines[at:]])
        front = again(text, front)
        assert told(front) == told(whole(text)), line
    alone = [size for size in sizes if size < 12]
    assert len(alone) > 3 * (len(sizes) - len(alone))
