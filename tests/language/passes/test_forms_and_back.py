"""A program in SSA form and back has its text again: types as they were spelled, allocations where
they were."""

from __future__ import annotations

import pytest

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import PtosimError
from ptosim.ground.source import Source
from ptosim.language.rewrite.forms import convert
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from tests.fuzz.corpus import Seed, seeds

SEEDS = [s for s in seeds() if "//---" not in s.text]


@pytest.mark.sampled(6, 110)
@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_every_program(seed: Seed) -> None:
    """Where a program is in other forms or spellings already (the page's `!pto.tile` with `outs`),
    what `--to dps` gives is kept from then on."""

    def to(form: str, text: str) -> str:
        return convert(Source(seed.name, text), form, seed.targets[0], seed.compat)

    try:
        plain = to("dps", seed.text)
        if "!pto.tile<" in plain:
            plain = to("dps", to("ssa", plain))
    except PtosimError:
        pytest.skip("a program that is refused")
    assert to("dps", to("ssa", plain)) == plain
    text = print_module(parse(Source(seed.name, seed.text), Sink()))
    assert plain == text or "!pto.tile<" in text or "->" in text or '"pto.' in text


TILE = "!pto.tile_buf<vec, 8x64xf32>"
TEXT = f"""!t = {TILE}
module {{
  func.func @k(%x: !t) {{
    %a = pto.alloc_tile : !t
    %b = pto.alloc_tile : {TILE}
    pto.tabs ins(%x : !t) outs(%a : !t)
    pto.tabs ins(%a : !t) outs(%b : {TILE})
    %c = pto.alloc_tile : !t
    pto.tabs ins(%b : {TILE}) outs(%c : !t)
    return
  }}
}}
"""


def test_comments_keep_what_a_result_does_not_say() -> None:
    """An allocation in front of its operation, of an alias, needs no comment."""
    ssa = convert(Source("k", TEXT), "ssa")
    assert f"// alloc_tile %b : {TILE}\n" in ssa
    assert "alloc_tile %c" not in ssa
    assert "%c = pto.tabs %b : (!pto.tile<8x64xf32>) -> !t" in ssa
    assert convert(Source("k", ssa), "dps") == TEXT


def test_a_comment_of_another_type_is_a_comment() -> None:
    ssa = convert(Source("k", TEXT), "ssa").replace(f"%b : {TILE}", "%b : !pto.ptr<f32>")
    back = convert(Source("k", ssa), "dps")
    assert "// alloc_tile %b" not in back
    assert back.index("%b = pto.alloc_tile") > back.index("outs(%a")
