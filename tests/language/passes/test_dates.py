"""Programs read as a date of the language: what the other date has, old spellings, moving a file."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError, UnsupportedError
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.dates import DATES
from ptosim.ground.source import Source
from ptosim.language.bind import unknown
from ptosim.language.frontend import FrontOptions
from ptosim.language.rewrite.forms import to_date

APRIL, AUGUST = DATES[:2]
TILE = "!pto.tile_buf<vec, 32x64xf32>"
PADDED = "!pto.tile_buf<vec, 32x64xf32, pad=1>"


def module(*lines: str) -> str:
    body = "\n".join(lines)
    return f"""module attributes {{"pto.target_arch" = "a2a3"}} {{
func.func @f(%i: index) {{
%t = pto.alloc_tile : {TILE}
%d = pto.alloc_tile : {PADDED}
{body}
return
}}
}}
"""


SUBSET = f"%w = pto.subset %t[%i, %i] sizes [16, 32] : {TILE}"
SUBVIEW = SUBSET.replace("subset", "subview")
FILL = f"pto.tfillpad ins(%t : {TILE}) outs(%d : {PADDED})"


def codes(text: str, **options: object) -> list[str]:
    found = ptosim.check(text, dry_run=False, **options)
    return [d.code for d in found if d.severity.word != "note"]


def test_a_renamed_operation_is_read_by_its_own_date_only() -> None:
    assert codes(module(SUBSET), compat=APRIL) == []
    assert codes(module(SUBSET), compat=AUGUST) == ["PTO0010"]
    assert codes(module(SUBVIEW), compat=AUGUST) == []
    assert codes(module(SUBVIEW), compat=APRIL) == ["PTO0010"]


def test_the_finding_names_the_date_and_carries_the_modern_text() -> None:
    (found,) = ptosim.check(module(SUBSET), compat=AUGUST)
    assert found.message == "unknown operation `pto.subset`: PTOAS 2026-08 has it no more"
    (fix,) = found.fixes
    assert (fix.span.text, fix.replacement) == ("pto.subset", "pto.subview")


def test_legacy_reads_what_the_date_does_not() -> None:
    assert codes(module(SUBSET), compat=AUGUST, legacy=True) == ["PTO0011"]
    program = ptosim.load(module(SUBSET), compat=AUGUST, legacy=True)
    assert (program.compat, program.entries) == (AUGUST, ["f"])
    with pytest.raises(ProgramError):
        ptosim.load(module(SUBSET), compat=AUGUST)


@pytest.fixture
def name_to_come(monkeypatch) -> str:
    """A name that August has and that has no row."""
    known = unknown.Coming("tile operations", AUGUST)
    monkeypatch.setattr(unknown, "_names", lambda: ({"tlater": known}, {}))
    return "pto.tlater"


def test_a_name_that_comes_later_is_not_an_old_spelling(name_to_come) -> None:
    text = module(f"{name_to_come} #pto.fence_scope<gm>")
    assert codes(text, compat=APRIL, legacy=True) == ["PTO1003"]
    with pytest.raises(UnsupportedError, match="this version does not have yet") as caught:
        ptosim.load(text, compat=AUGUST)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("date", DATES)
def test_a_snippet_is_read_at_every_date(date: str) -> None:
    snippet = "pto.tfillpad_inplace ins(%a : !pto.tile) outs(%b : !pto.tile)"
    assert "PTO0010" not in codes(snippet, compat=date)
    assert "PTO1003" not in codes(snippet, compat=date)


def test_another_date_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown date `2026-06`"):
        ptosim.check(module(), compat="2026-06")


def test_a_mistake_after_an_operation_to_come_is_reported_as_itself(name_to_come) -> None:
    text = module(f"{name_to_come} #pto.fence_scope<gm>", "%x = arith.constant ) : index")
    assert codes(text, compat=AUGUST) == ["PTO0002"], "of a text with syntax errors only those"


def moved(text: str) -> tuple[str, list[str]]:
    result = to_date(Source("t.pto", text), FrontOptions(), AUGUST)
    return result.text, [d.message for d in result.left]


def test_a_file_moves_to_august() -> None:
    fills = [FILL.replace("tfillpad", f"tfillpad_{word}") for word in ("inplace", "expand")]
    text, left = moved(module("// kept", SUBSET, *fills))
    assert text == module("// kept", SUBVIEW, FILL, FILL)
    assert left == []
    assert codes(text, compat=AUGUST) == []


def test_what_cannot_be_moved_is_said() -> None:
    pack = f"pto.tpack ins(%t : {TILE}) outs(%d : {PADDED})"
    text, left = moved(module(SUBSET, pack))
    assert text == module(SUBVIEW, pack)
    assert left == ["unknown operation `pto.tpack`: PTOAS 2026-08 has it no more"]
    assert moved(text) == (text, left), "moving again changes nothing"


ACC = "!pto.tile_buf<acc, 16x16xf32, blayout=col_major, slayout=row_major, fractal=1024>"
SCALES = "!pto.tile_buf<scaling, 1x16xi64>"
OUT = "!pto.partition_tensor_view<16x16xi8>"


def store(text: str) -> str:
    return f"""module attributes {{"pto.target_arch" = "a5"}} {{
func.func @f(%p: !pto.ptr<i8>) attributes {{pto.kernel_kind = #pto.kernel_kind<cube>}} {{
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c16 = arith.constant 16 : index
%v = pto.make_tensor_view %p, shape = [%c16, %c16], strides = [%c16, %c1] : !pto.tensor_view<16x16xi8>
%w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c16] : !pto.tensor_view<16x16xi8> -> {OUT}
%a = pto.alloc_tile : {ACC}
%s = pto.alloc_tile : {SCALES}
{text}
return
}}
}}
"""


OLD_STORE = f"pto.tstore_fp ins(%a, %s : {ACC}, {SCALES}) outs(%w : {OUT})"
NEW_STORE = f"pto.tstore ins(%a : {ACC} fp %s : {SCALES}) outs(%w : {OUT})"


def test_an_operand_moves_into_the_clause_of_the_newer_name() -> None:
    assert codes(store(OLD_STORE), compat=APRIL) == []
    assert codes(store(NEW_STORE), compat=AUGUST) == []
    text, left = moved(store(OLD_STORE))
    assert (text, left) == (store(NEW_STORE), [])
    assert codes(store(NEW_STORE), compat=APRIL) != []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NEW_STORE.replace(" fp %s", " fp %a").replace(SCALES, ACC), "fp to use loc=scaling"),
        (NEW_STORE + " {stPhase = #pto<st_phase partial>}", "use the default stPhase"),
    ],
)
def test_what_the_clause_of_a_store_takes(text: str, words: str) -> None:
    found = ptosim.check(store(text), compat=AUGUST)
    assert any(words in d.message for d in found), [d.message for d in found]
