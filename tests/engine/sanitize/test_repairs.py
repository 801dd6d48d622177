"""The lines that a race report proposes order the two operations: inserted, the race is gone.

Every mutant of a sample of synchronised programs that races is repaired mechanically, one finding
after the other, as `check --fix` does it."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.fix import repair
from ptosim.ground.source import Source
from ptosim.shell.main import main
from ptosim.tools.api import check_source
from tests.engine.sanitize.test_mutations import canonical, generated, synchronised
from tests.engine.sanitize.test_races import ADD, flag, loop, pair
from tests.ops.semantics.test_sync import X, program
from tests.support.mutate import mutants

RACES = ("PTO5201", "PTO5202", "PTO5203", "PTO5204")
HYGIENE = ("PTO5210", "PTO5211", "PTO5006")
SAMPLE = 8


def findings(source: Source, target: str) -> list:
    return check_source(source, target, sync="manual").findings


def repaired(text: str, target: str) -> tuple[str, list[str]]:
    """The text with every proposal in it, and what is still found."""
    result = repair(Source("k", text), lambda source: findings(source, target))
    return result.source.text, [d.code for d in findings(result.source, target)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("seed", range(3))
def test_mutants_are_repaired_mechanically(seed, target):
    text = canonical(synchronised(generated(seed, target), target, None))
    given = {"x": X, "y": np.zeros_like(X)}
    reference = ptosim.load(text, target=target, sync="manual").run(given).outputs["y"].tobytes()
    tried = 0
    for mutant in random.Random(seed).sample(list(mutants(text)), SAMPLE):
        before = {d.code for d in findings(Source("k", mutant.text), target)}
        if not before & set(RACES) or before & set(HYGIENE):
            continue  # a hang, or a flag too many, is not mended by more flags
        tried += 1
        mended, codes = repaired(mutant.text, target)
        assert not {*RACES, *HYGIENE} & set(codes), (mutant, codes, mended)
        result = ptosim.load(mended, target=target, sync="manual").run(given, commit="retire")
        assert result.outputs["y"].tobytes() == reference
    assert tried or target == "a5"


IF = "%t = arith.constant 1 : i1\nscf.if %t {{\n{}\n}}\n"
SHAPES = {
    "straight": "LOAD\nSTORE",
    "after a loop": f"{loop('LOAD')}\nSTORE",
    "into a loop": f"LOAD\n{loop('STORE')}",
    "around a back edge": loop(f"{pair('MTE2', 'MTE3')}\nLOAD\n{pair('MTE2', 'MTE3')}\nSTORE"),
    "in a branch": f"LOAD\n{IF.format('STORE')}",
    "out of a branch": f"{IF.format('LOAD')}STORE\nLOAD",
    "branches of one loop": loop(f"{IF.format('LOAD')}{IF.format('STORE').replace('%t', '%u')}"),
    "one branch": loop(IF.format(f"STORE\n{pair('MTE3', 'MTE2')}\nLOAD")),
    "nested loops": loop(f"LOAD\n{loop('STORE').replace('%i', '%j')}"),
    "a loop without trips": f"LOAD\n{loop('STORE').replace('%c2', '%c0')}\nSTORE",
    "sum": f"LOAD\n{loop(ADD)}\nSTORE",
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_program(name, target):
    """Also where the two are in different blocks: the flag is set as often as it is waited for."""
    text = program(f"{pair('S', 'V')}\n{SHAPES[name]}", target)
    assert set(RACES) & {d.code for d in findings(Source("k", text), target)}
    mended, codes = repaired(text, target)
    assert not {*RACES, *HYGIENE} & set(codes), mended


def test_no_free_event_id_leaves_a_barrier():
    used = "\n".join(pair("MTE2", "MTE3", n) for n in range(8))
    text = program(f"{used}\nLOAD\nSTORE")
    (race,) = [d for d in findings(Source("k", text), "a5") if d.code in RACES]
    assert "pto.barrier <PIPE_ALL>" in race.help
    assert not set(RACES) & set(repaired(text, "a5")[1])


def test_quoted_pipes_count_as_used():
    quoted = pair("MTE2", "MTE3").replace("<PIPE_MTE2>", '"PIPE_MTE2"')
    quoted = quoted.replace("<PIPE_MTE3>", '"PIPE_MTE3"').replace("<EVENT_ID0>", '"EVENT_ID0"')
    (race,) = [
        d for d in findings(Source("k", program(f"{quoted}\nLOAD\nSTORE")), "a5") if d.code in RACES
    ]
    assert flag("set", "MTE2", "MTE3", 1) in race.help


SQUARE = "!pto.tile_buf<mat, 16x16xf16, blayout=col_major, slayout=row_major>"
LEFT = "!pto.tile_buf<left, 16x16xf16, blayout=col_major, slayout=row_major>"
MOVE = f"pto.tmov ins(%m : {SQUARE}) outs(%l : {LEFT})"
TAKE = f"pto.tload ins(%pm : !pto.partition_tensor_view<16x16xf16>) outs(%m : {SQUARE})"
HEAD = f"""%vm = pto.make_tensor_view %h, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xf16>
%pm = pto.partition_view %vm, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<16x16xf16> -> !pto.partition_tensor_view<16x16xf16>
%m = pto.alloc_tile : {SQUARE}
%l = pto.alloc_tile : {LEFT}"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_two_races_of_one_message_are_two(target):
    """The load of the loop may overtake the move before the loop, and that of the round before: the
    same words twice, and a flag for each of them."""
    there = pair("MTE2", "MTE1")
    lines = f"{HEAD}\n{TAKE}\n{there}\n{MOVE}\n{loop(f'{TAKE}{chr(10)}{there}{chr(10)}{MOVE}')}"
    text = program(lines, target, args=", %h: !pto.ptr<f16>")
    assert "PTO5202" in [d.code for d in findings(Source("k", text), target)]
    mended, codes = repaired(text, target)
    assert not {*RACES, *HYGIENE} & set(codes), mended
    assert mended.count("set_flag[<PIPE_MTE1>, <PIPE_MTE2>") >= 2


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_file_keeps_its_mark_and_its_line_ends(mark, end, tmp_path, capsys):
    text = program("LOAD\nSTORE").replace("\n", end)
    path = tmp_path / "k.pto"
    path.write_bytes(f"{mark}{text}".encode())
    assert main(["check", "--fix", str(path), "--sync", "manual"]) == 0
    mended = path.read_bytes().decode()
    assert mended.startswith(f"{mark}module")
    lines = [flag("set", "MTE2", "MTE3"), flag("wait", "MTE2", "MTE3")]
    assert end + end.join(lines) + end in mended
    assert mended.count("\n") == mended.count(end) == text.count(end) + 2
