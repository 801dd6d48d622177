"""Every code of the tree has its text, and every text a code that is used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics import catalog as catalogue
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.diagnostics.model import Origin, Severity, Sink, finding
from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.cache import isa_directory
from ptosim.ground.isa.rows import isa
from ptosim.language.bind.unknown import coming
from tests.support.modules import Call, Module, modules
from tests.support.text import Kernel

# Attributes, and an operation that the language does not have, which is what its example shows.
OTHER_WORDS = {
    "entry", "target_arch", "device", "tadddd", "backend", "kernel_kind", "multi_buffer_addrs",
    "ptodsl.logical_name", "tileop.helper", "simt_entry", "simt_max_threads",
}  # fmt: skip
_OPERATION = re.compile(r"(?<![!#])\bpto\.(\w+(?:\.\w+)*)")
_CODE = re.compile(r"\bPTO\d{4}\b")


def _used() -> set[str]:
    code = Path(ptosim.__file__).parent.rglob("*.py")
    rows = [*(isa_directory() / "ops").glob("*.toml")]
    rows += [isa_directory() / f"{name}.toml" for name in ("structure", "unlowered")]
    return {c for path in (*code, *rows) for c in _CODE.findall(path.read_text(encoding="utf-8"))}


def test_codes_and_texts_are_the_same_set() -> None:
    assert sorted(set(catalog()) ^ _used()) == []


def test_every_text_is_complete() -> None:
    for code, entry in catalog().items():
        assert entry.severity in ("error", "warning", "note"), code
        assert entry.title, code
        assert not entry.title.endswith("."), code
        assert entry.explanation.rstrip().endswith("."), code
        assert entry.cure.rstrip().endswith((".", "`")), code
        assert entry.example, code


def test_examples_name_operations_that_there_are() -> None:
    known = {name.removeprefix("pto.") for name in isa().names()} | OTHER_WORDS
    for code, entry in catalog().items():
        unknown = set(_OPERATION.findall(entry.example or "")) - known
        assert all(coming(f"pto.{name}") for name in unknown), code


# -- severity: one for each code, in the catalogue only -----------------------------------------------

MADE_WITH = {"finding", "recoded", "report", "OpFault", "_fault", "_placement_error"}
STRENGTHS = {word for severity in Severity for word in (severity.name, severity.word)} | {"warn"}


_STRONG = re.compile(rf"\b(?:{'|'.join(STRENGTHS)}|Diagnostic)\s*\(|\bseverity\s*=")
_STOPS = re.compile(r"\bOpFault\s*\(")
_MAKERS = ("model.py", "check_command.py", "verdicts.py")


@pytest.mark.slow
def test_no_call_says_how_bad_a_finding_is() -> None:
    """`--strict` alone may: it makes errors of warnings. A verdict that was kept says what was
    said."""
    for module, call in _calls(_STRONG):
        place = f"{module.path}:{call.line}"
        coded = any(_CODE.fullmatch(str(text)) for text in call.constants)
        assert not (coded and call.name in STRENGTHS), place
        if "severity" in call.keywords or call.name == "Diagnostic":
            is_protocol = module.name == "tools/lsp/server.py"  # an editor's diagnostic
            assert is_protocol or module.path.name in _MAKERS, place


def _calls(form: re.Pattern[str]) -> Iterator[tuple[Module, Call]]:
    """Every call of the modules whose text has a form: no other needs to be parsed."""
    said = (module for module in modules() if form.search(module.text))
    return ((module, call) for module in said for call in module.calls)


def test_what_stops_a_run_is_an_error() -> None:
    entries = catalog()
    for module, call in _calls(_STOPS):
        if call.name == "OpFault":
            for code in filter(_CODE.fullmatch, map(str, call.constants)):
                assert entries[code].severity == "error", f"{module.path}:{call.line}"


def test_rows_give_codes_and_no_severity() -> None:
    for path in (isa_directory() / "ops").glob("*.toml"):
        assert not re.search(r"\bseverity\b", path.read_text(encoding="utf-8")), path.name


def test_the_severity_is_that_of_the_catalogue() -> None:
    for code, entry in catalog().items():
        assert finding(code, "text").severity.word == entry.severity


def test_every_code_has_one_origin() -> None:
    for code, entry in catalog().items():
        assert finding(code, "text").origin == entry.origin, code
        assert Origin(entry.origin).value in catalogue.ORIGINS, code


@pytest.mark.parametrize(
    ("code", "severity", "origin"),
    [
        # Contract, "Whose verdict": refused by the assembler, or cannot be placed.
        ("PTO0002", "error", "assembler"),
        ("PTO1001", "error", "assembler"),
        ("PTO2010", "error", "assembler"),
        ("PTO3001", "error", "assembler"),
        ("PTO4001", "error", "assembler"),
        ("PTO4353", "error", "assembler"),
        # "What the assembler accepts but cannot lower is a warning of origin assembler."
        ("PTO2044", "warning", "assembler"),
        ("PTO3030", "warning", "assembler"),
        ("PTO8003", "warning", "assembler"),
        # Races, the order of cores, what nothing can ever match.
        *((f"PTO520{n}", "error", "hardware") for n in range(1, 6)),
        ("PTO5004", "error", "hardware"),
        ("PTO5005", "error", "hardware"),
        ("PTO5006", "error", "hardware"),
        ("PTO5106", "error", "hardware"),
        # Outside the view, a buffer, a space.
        ("PTO6101", "warning", "hardware"),
        ("PTO6001", "error", "hardware"),
        ("PTO6013", "error", "hardware"),
        ("PTO6019", "warning", "hardware"),
        ("PTO6602", "error", "hardware"),
        # "Run-time-only findings (scf.for step <= 0, …) are no rejections of the assembler."
        ("PTO6006", "error", "hardware"),
        # Undefined bytes, a destroyed source, in place.
        *((f"PTO710{n}", "warning", "hardware") for n in range(1, 6)),
        ("PTO6401", "warning", "hardware"),
        # Could be better.
        ("PTO5301", "note", "lint"),
        ("PTO3003", "note", "lint"),
    ],
)
def test_the_table_of_findings(code: str, severity: str, origin: str) -> None:
    made = finding(code, "text")
    assert (made.severity.word, made.origin.value) == (severity, origin)


def test_advice_is_never_an_error_of_a_program() -> None:
    """What works cannot be wrong; codes about ptosim's own options, limits and files aside."""
    own = (
        "PTO0014",
        "PTO0015",
        "PTO0016",
        "PTO108",
        "PTO612",
        "PTO65",
        "PTO752",
        "PTO760",
        "PTO761",
        "PTO762",
        "PTO764",
        "PTO9",
    )
    for code, entry in catalog().items():
        if entry.origin == "lint" and not code.startswith(own):
            assert entry.severity != "error", code


def test_a_code_may_be_worse_at_a_level(monkeypatch) -> None:
    known = {**catalogue.standings()}
    known["PTO5301"] = catalogue.Standing("note", "assembler", {"3": "error"}, {})
    monkeypatch.setattr("ptosim.ground.diagnostics.model.standings", lambda: known)
    severities = []
    for level in (None, "2", "3", "inferred 3"):
        sink = Sink(level=level)
        sink.report("PTO5301", "text")
        severities += [(found.severity.word, sink.is_rejected) for found in sink]
    assert severities == [("note", False), ("note", False), ("error", True), ("note", False)]


@pytest.mark.parametrize(
    "row",
    [
        {"severity": "error"},
        {"severity": "fatal", "origin": "lint"},
        {"severity": "error", "origin": "vendor"},
        {"severity": "error", "origin": "lint", "at_level": {"4": "note"}},
        {"severity": "error", "origin": "lint", "at_level": {"3": "fatal"}},
    ],
)
def test_a_row_without_severity_and_origin_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(IsaDataError, match="PTO1234: a code has a severity"):
        catalogue._plain_standings({"code": {"PTO1234": row}})


def test_a_code_without_a_text_is_refused() -> None:
    with pytest.raises(IsaDataError, match="PTO0000"):
        finding("PTO0000", "text")


ONE_TILE = "!pto.tile_buf<vec, 16x64xf32{}>"
TOO_LARGE = f"""
func.func @f() {{
  %n = arith.constant 65 : index
  %t = pto.alloc_tile valid_row = %n valid_col = %n : {ONE_TILE.format(", valid=?x?")}
  pto.set_validshape %t, %n, %n : {ONE_TILE.format(", valid=?x?")}
  return
}}"""


def _loads_fewer_rows(k: Kernel) -> list[ptosim.Diagnostic]:
    tile = k.tile("tile", "f32", 16, 32, (11, 32))
    k.load("x", tile, (16, 32))
    k.store(tile, "y")
    arrays = {"x": np.zeros(16 * 32, np.float32), "y": np.zeros(11 * 32, np.float32)}
    return k.run(arrays).findings


def test_explain_says_what_is_emitted() -> None:
    """The catalogue said that a valid extent outside its tile is an error and a load of fewer rows
    a warning; a warning and a note came."""
    found = [*ptosim.check(TOO_LARGE, target="a2a3"), *_loads_fewer_rows(Kernel("a5"))]
    assert {d.message.split()[1] for d in found} >= {"op", "moves"}, found
    for each in found:
        assert each.severity.word == catalog()[each.code].severity, each.code
