"""Synchronisation that orders nothing is named with its price; what is needed stays."""

from __future__ import annotations

import pytest

from ptosim.ground.errors import UsageError
from ptosim.ground.source import Source
from ptosim.tools.api import check_source
from tests.engine.sanitize.test_races import ADD, flag, loop, pair
from tests.ops.semantics.test_sync import program

NEEDED = f"LOAD\n{pair('MTE2', 'V')}\n{ADD}\n{pair('V', 'MTE3')}\nSTORE"
BACK = flag("set", "MTE3", "MTE2"), flag("wait", "MTE3", "MTE2")


def notes(body: str, code: str, target: str = "a5") -> list:
    source = Source("k", program(body, target))
    found = check_source(source, target, sync="manual", redundant=True).findings
    return [d for d in found if d.code == code]


def carried(inside: str, before: str = "", after: str = "") -> str:
    """A loop whose stores are waited for by the next load."""
    give, take = BACK
    return loop(f"{take}\n{inside}\n{give}", f"{give}\n{before}", f"{take}\n{after}")


@pytest.mark.parametrize("body", [NEEDED, carried(NEEDED)], ids=["straight", "loop"])
def test_what_orders_something_stays(body):
    assert notes(body, "PTO5301") == []


def test_a_barrier_is_named_with_its_price():
    """The flags of the back edge could go too, but not both."""
    found, _ = notes(carried(f"pto.barrier <PIPE_ALL>\n{NEEDED}"), "PTO5301")
    assert "this barrier orders nothing" in found.message
    assert any("of two that do the same, one has to stay" in n for n in found.notes)
    assert found.context["cycles"] > found.context["without"]
    assert f"it costs {found.context['cycles'] - found.context['without']} of" in found.message


def test_a_pair_in_one_block():
    (found,) = notes(f"{NEEDED}\n{pair('MTE3', 'S', 4)}", "PTO5301")
    assert "pair of flags" in found.message
    assert len(found.fixes) == 2


def test_the_flags_of_an_event_in_several_blocks():
    """Set before a loop and in it, waited for in it and after it: all four go together."""
    give, take = flag("set", "MTE3", "V", 3), flag("wait", "MTE3", "V", 3)
    (found,) = notes(carried(f"{take}\n{NEEDED}\n{give}", give, take), "PTO5301")
    assert "several blocks" in found.message
    assert len(found.fixes) == 4
    assert [label.text for label in found.labels[1:]] == [
        "and this wait",
        "and this set",
        "and this wait",
    ]
    text = found.span.source.text
    for fix in sorted(found.fixes, key=lambda f: -f.span.start):
        text = text[: fix.span.start] + fix.replacement + text[fix.span.end :]
    assert "EVENT_ID3" not in text


def test_event_ids_by_pair_of_pipes_and_loop():
    found = {
        d.context["to"]: d for d in notes(f"{carried(NEEDED)}\n{pair('MTE2', 'V', 5)}\n", "PTO5303")
    }
    assert found["<PIPE_V>"].context["ids"] == ["<EVENT_ID0>", "<EVENT_ID5>"]
    (only,) = found["<PIPE_V>"].context["loops"]
    assert only["ids"] == ["<EVENT_ID0>"]
    assert any(n.startswith(f"loop in line {only['line']}: 1 (0)") for n in found["<PIPE_V>"].notes)
    assert "1 of 8 event ids" in found["<PIPE_MTE2>"].message


def test_all_event_ids_in_use():
    pairs = "\n".join(pair("MTE2", "MTE3", n) for n in range(8))
    (found,) = notes(f"LOAD\n{pairs}\nSTORE", "PTO5302")
    assert found.message.startswith("all 8 event ids from <PIPE_MTE2> to <PIPE_MTE3>")


def test_a_program_with_races_is_refused():
    with pytest.raises(UsageError, match="while it has PTO5201"):
        notes(f"{pair('S', 'V')}\nLOAD\nSTORE", "PTO5301")


def test_a_barrier_that_orders_only_with_what_is_outside_its_loop_moves_out_of_it():
    """The sums of the rounds read what was there before and write tiles of their own: the barrier
    makes the store wait for them, and once after the loop is enough."""
    sums = loop(f"{ADD}\npto.barrier <PIPE_ALL>")
    (found,) = notes(f"LOAD\n{pair('MTE2', 'V')}\n{sums}\nSTORE", "PTO5304")
    assert "once after it is enough" in found.message
    assert found.help == "move it after the loop"
    text = found.span.source.text
    for fix in sorted(found.fixes, key=lambda fix: -fix.span.start):
        text = text[: fix.span.start] + fix.replacement + text[fix.span.end :]
    assert text.count("pto.barrier") == 1
    assert text.index("pto.barrier") > text.index("}", text.index("scf.for"))
    moved = check_source(Source("k", text), "a5", sync="manual", redundant=True).findings
    assert not any(d.is_error or d.code in ("PTO5301", "PTO5304") for d in moved)


def test_a_barrier_between_rounds_stays_in_its_loop():
    """The store of a round reads what the sum wrote, and the next sum overwrites it."""
    body = f"{ADD}\npto.barrier <PIPE_ALL>\nSTORE\npto.barrier <PIPE_ALL>"
    assert notes(f"LOAD\n{pair('MTE2', 'V')}\n{loop(body)}", "PTO5304") == []
