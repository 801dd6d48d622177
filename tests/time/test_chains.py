"""Cast chains side by side: every TQUANT mode on both targets, stage by stage.

`python -m tests.time.test_chains` writes the transcripts anew, to be read before they are kept. What
A2/A3 executes is compared with the instruction counts that the public per-instruction model gives for
the library's TQUANT (`cycles_a2a3_stub.json`); nothing is published for A5."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import ptosim
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.isa.overlay import stage_text, stage_texts
from ptosim.time.report.chains import Chain, chains
from ptosim.views import cast_chains
from tests.accuracy.tquant import int8
from tests.ops.conformance.data import document
from tests.support.text import Kernel, date_of

HERE = Path(__file__).parent / "chains"
TARGETS = ("a2a3", "a5")
INT8 = {"int8_sym": False, "int8_asym": True}
MX = {
    f"{kind}_{rule.lower()}_{elem}_{places}": (kind, rule, elem, places)
    for kind, elems in (("mxfp8", ("f32", "bf16", "f16")), ("mxfp4", ("bf16", "f16")))
    for elem in elems
    for rule in ("Ocp", "Nv")
    for places in (("flat", "rows") if elem == "f32" else ("flat",))
}
ROWS, COLS = 64, 256


def int8_text(offset: bool, target: str) -> str:
    """INT8 with a scale, and an offset, for each row."""
    k = Kernel(target)
    x = k.tile("x", "f32", ROWS, COLS)
    columns = [k.tile(n, "f32", ROWS, 1, layout="dn") for n in ("s", "z")[: 1 + offset]]
    q = k.tile("q", "ui8" if offset else "i8", ROWS, COLS)
    tmp = [k.tile("tmp", "f32", ROWS, COLS)] if target == "a2a3" else []
    word = "INT8_ASYM" if offset else "INT8_SYM"
    k.op("pto.tquant", [x, *columns], [q, *tmp], f"quant_type = #pto<quant_type {word}>")
    return k.text()


def mx_text(kind: str, rule: str, elem: str, places: str, target: str = "a5") -> str:
    """Groups of 32 along rows, exponents dense or a row for each row."""
    k = Kernel(target)
    groups = COLS // 32
    x = k.tile("x", elem, ROWS, COLS)
    q = k.tile("q", "f8E4M3FN" if kind == "mxfp8" else "f4E2M1FN", ROWS, COLS)
    exp = k.tile("e", "ui8", *((1, ROWS * groups) if places == "flat" else (ROWS, 32)))
    scratch = [k.tile(n, elem, 1, 2 * ROWS * groups) for n in ("m", "c")]
    word = {"mxfp8": "MxFp8E4M3", "mxfp4": "MxFp4E2M1"}[kind]
    k.op("pto.tquant", [x], [q, exp, *scratch],
         f"mx_alg = #pto<mx_quant_alg {rule}{word}>, grp_axis = 1, interleave = false")  # fmt: skip
    return k.text()


def timed(name: str) -> tuple[list[Chain], dict[str, str]]:
    """The chains of a mode on both targets, and the code by which one refuses it."""
    reports, rejected = [], {}
    for target in TARGETS:
        text = int8_text(INT8[name], target) if name in INT8 else mx_text(*MX[name], target)
        try:
            loaded = ptosim.load(text, target=target, compat=date_of(text))
            reports.append(loaded.cost())
        except ProgramError as problem:
            rejected[target] = problem.diagnostics[0].code
    return chains(reports), rejected


def transcript(name: str) -> str:
    """What the terminal shows at 80 columns."""
    found, rejected = timed(name)
    written = io.StringIO()
    console = Console(file=written, width=80, color_system=None)
    for part in cast_chains.renderables(found, 80, rejected):
        console.print(part)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [*INT8, *MX])
def test_transcript(name):
    assert transcript(name) == (HERE / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [*INT8, *MX])
def test_the_stages_add_up_to_the_operation(name):
    found, rejected = timed(name)
    (chain,) = found
    assert set(chain.cycles) | set(rejected) == set(TARGETS)
    assert ("a2a3" in chain.cycles) == (name in INT8)
    for target, total in chain.cycles.items():
        assert sum(row.cells[target].cycles for row in chain.rows if target in row.cells) == total
        for row in chain.rows:
            if target in row.cells:
                assert row.told(target, "why"), (row.stage, target)
                assert row.told(target, "waits"), (row.stage, target)


def test_the_order_is_that_of_the_data():
    (chain,), _ = timed("int8_asym")
    assert [row.stage for row in chain.rows if row.stage != "barrier"] == [
        "start and drain", "spread the scale", "multiply by the scale", "spread the offset",
        "add the offset", "f32 to s32", "s32 to f16", "s32 to f32", "f32 to f16", "f16 to ui8",
    ]  # fmt: skip


STUB = [r for r in document("cost/cycles_a2a3_stub.json") if r["op"] == "TQUANT"]
NAMES = {
    "vbrcb": "spread", "vmul": "multiply", "vadd": "add", "vconv_f322s32r": "f32 to s32",
    "vconv_deq": "s32 to f16", "vconv_f162s8r": "f16 to", "vconv_f162u8r": "f16 to",
}  # fmt: skip


@pytest.mark.parametrize("row", [r for r in STUB if r["valid_cols"] == r["cols"]],
                         ids=lambda r: f"{r['rows']}x{r['cols']}-{r['extra']['quant_type']}")  # fmt: skip
def test_instructions_are_those_of_the_library(row):
    """How often each instruction is executed, for every full shape of the public table."""
    cost = int8("a2a3", row["rows"], row["cols"], offset="ASYM" in row["extra"]["quant_type"])
    for name, start in NAMES.items():
        if name in row["instr"]:
            mine = [s for s in cost.stages if s.name.startswith(start)]
            assert sum(s.count for s in mine) == row["instr"][name][0], name
    assert cost.cycles == pytest.approx(row["cycles"], rel=0.09)


def test_explain_knows_every_stage(cli):
    for stage in stage_texts():
        for word in (*stage.names, *stage.also):
            assert stage_text(word) is not None, word
    assert stage_text("s32→f16") == stage_text("S32 -> f16") == stage_text("s32 to f16")
    assert stage_text("tcvt f32 to i32") == stage_text("tile operation")
    told = cli("explain", "s32 to f16").out
    assert "sets the scale register" in told
    assert "a5 has no such stage" in told
    data = json.loads(cli("explain", "maxima", "--format", "json").out)
    assert list(data["targets"]) == ["a5"]


def test_cost_shows_chains_first(cli):
    """In the report, as data and on a page."""
    assert "--view chain" in cli("cost", "@quant/int8_sym").out
    views = ("--view", "chain", "--view", "summary", "--view", "ops")
    text = cli("cost", "@quant/int8_sym", *views).out
    assert text.index("cast chain: tquant") < text.index("cycles  ") < text.index("by operation")
    data = json.loads(cli("cost", "@quant/int8_sym", "--format", "json").out)
    for target in TARGETS:
        (chain,) = data["targets"][target]["chains"]
        cycles = [s["targets"][target]["cycles"] for s in chain["stages"]]
        assert sum(cycles) == chain["cycles"][target]


def test_page(cli, tmp_path):
    path = tmp_path / "chain.html"
    cli("cost", "@quant/int8_sym", "-o", str(path))
    page = path.read_text(encoding="utf-8")
    for word in ("cast chain: tquant", "s32 to f16", "waits for", "microseconds"):
        assert word in page
    assert "http" not in page.replace("http://www.w3.org", "")


if __name__ == "__main__":
    for mode in (*INT8, *MX):
        (HERE / f"{mode}.txt").write_text(transcript(mode), encoding="utf-8")
