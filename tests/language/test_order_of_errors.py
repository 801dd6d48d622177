"""The first error of a text is the one with which the assembler stops: what cannot be read, then the
rules of one operation, then those on several (pipes, peers), then those on functions and modules.
Of an attribute that is in error is not said that it has no effect."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.language.verify import verify

T, H = "!pto.tile_buf<vec, 16x64xf32>", "!pto.tile_buf<vec, 16x64xf16>"
UNREADABLE = f"pto.tcvt ins(%t : {T}) outs(%h : {H}) {{rmode = #pto<round_mode SIDEWAYS>}}"
OWN = f"pto.tadd ins(%t, %h : {T}, {H}) outs(%u : {T})"
PIPE = f"pto.tpush_to_aic(%t : {T}) {{id = 3, split = 0}}"
PEER = '%b = pto.import_reserved_buffer {name = "fifo", peer_func = @nobody} -> i32'
SIGNAL = "pto.sync.wait <PIPE_MTE2>, 3"
FIXPIPE = (
    "pto.tmov ins(%q : !pto.tile_buf<acc, 16x16xf32>) outs(%w : !pto.tile_buf<vec, 16x16xf32>) "
    "{accToVecMode = #pto<acc_to_vec_mode both>}"
)
MEMBER = "PTO2004"


def refusals(*lines: str, target: str = "a3", function: str = "", **options):
    body = "\n    ".join(lines)
    text = f"""module attributes {{pto.target_arch = "{target}"}} {{
  func.func @k(){function} {{
    %z = arith.constant 0 : i64
    %t = pto.alloc_tile : {T}
    %u = pto.alloc_tile : {T}
    %h = pto.alloc_tile : {H}
    %q = pto.alloc_tile : !pto.tile_buf<acc, 16x16xf32>
    %w = pto.alloc_tile : !pto.tile_buf<vec, 16x16xf32>
    {body}
    return
  }}
}}"""
    return ptosim.check(text, dry_run=False, **options)


HINT = ' attributes {pto.auto_sync_tail_hint = "x"}'


@pytest.mark.parametrize(("lines", "first", "choices"), [
    ((OWN, UNREADABLE), MEMBER, {}),
    ((PIPE, UNREADABLE), MEMBER, {}),
    ((SIGNAL, UNREADABLE), MEMBER, {}),
    ((PIPE, FIXPIPE), MEMBER, {"target": "a5"}),
    ((UNREADABLE,), MEMBER, {"function": HINT}),
    ((PIPE, OWN), "PTO2010", {}),
    ((PEER, OWN), "PTO2010", {"target": "a5"}),
    ((SIGNAL, OWN), "PTO2010", {}),
    ((OWN,), "PTO2010", {"function": HINT}),
    ((OWN,), "PTO2010", {"level": 3}),
    ((PEER, UNREADABLE), MEMBER, {"target": "a5"}),
    ((PIPE, PEER), "PTO5019", {"target": "a5"}),
    ((PIPE,), "PTO5011", {"function": HINT}),
    ((SIGNAL,), "PTO5010", {"function": HINT}),
    ((PEER,), "PTO5019", {"target": "a5", "function": HINT}),
])  # fmt: skip
def test_the_first_of_two_errors(lines, first, choices):
    found = [d for d in refusals(*lines, **choices) if d.is_error]
    assert found[0].code == first
    assert len({d.code for d in found}) > 1


@pytest.mark.parametrize("line", [
    "pto.syncall {mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<aiv_only>}",
])  # fmt: skip
def test_of_an_attribute_in_error_is_not_said_that_it_is_kept(line):
    assert "PTO2003" not in [d.code for d in refusals(line)]
    assert "PTO2003" in [
        d.code for d in refusals(UNREADABLE.replace("SIDEWAYS", "RINT").replace("rmode", "other"))
    ]


T8 = "!pto.tile_buf<vec, 16x64xi8>"
FINE = f"pto.tadd ins(%t, %u : {T}, {T}) outs(%u : {T})"
NOT_FOR_I8 = "pto.texp ins(%a : {0}) outs(%a : {0})"
IN_TWO_TYPES = "\n".join(
    f"    scf.if %yes {{\n%a = pto.alloc_tile : {type_}\n{NOT_FOR_I8.format(type_)}\n}}"
    for type_ in (T, T8, T, T8)
)


def test_what_is_said_again_is_found_again():
    """The rules are asked once for operations that say the same of the same values, and for each
    of those that break one; a name may be another value in another region."""
    found = refusals(FINE, OWN, FINE, OWN, FINE, "%yes = arith.constant true", IN_TWO_TYPES)
    wrong = [d.span.line for d in found if d.is_error]
    assert [d.code for d in found if d.is_error] == ["PTO2010", "PTO2010", "PTO2013", "PTO2013"]
    assert wrong == [10, 12, 21, 29]  # of a body that begins in line 9


def test_the_rules_are_asked_once_of_what_is_said_again(monkeypatch):
    asked: list[str] = []
    check = verify._Verifier.check
    monkeypatch.setattr(
        verify._Verifier, "check", lambda *given: (asked.append(given[1].name), check(*given))
    )
    assert not refusals(*[FINE] * 5, FINE.replace("%t", "%u"))
    assert asked.count("pto.tadd") == 2
