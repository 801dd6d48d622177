"""The pains of kernel developers, each with a program whose diagnostic names place, cause and cure, or
a reason why there is none."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.launch import array_files
from ptosim.launch.description import sidecar_of
from ptosim.launch.sources import source_path
from ptosim.tools.api import check_source
from ptosim.views.manual import pages

# What hurts -> program, code, and words of the cure; or why no program can show it.
GALLERY: dict[str, tuple[str, str, str] | str] = {
    "missing synchronisation": ("missing_flag", "PTO5201", "pto.set_flag[<PIPE_V>, <PIPE_MTE3>"),
    "hang on a flag": ("wait_without_set", "PTO5006", "signal each flag before"),
    "memory over budget": ("over_budget", "PTO4001", "shrink the largest tiles"),
    "reused memory that is still live": ("tiles_overlap", "PTO7104", "apart"),
    "rounding surprises": ("quotient_in_float", "PTO7022", "rounded first"),
    "quantisation recipe": ("tquant_without_offset", "PTO2041", "offset"),
    "alignment": ("tile_misaligned", "PTO4354", "32"),
    "operand an operation cannot take": ("left_operand_in_vec", "PTO2015", "left"),
    "valid regions and padding": ("stale_padding", "PTO7101", "valid region smaller"),
    "simulator and board disagree": ("no_such_conversion", "PTO8002", ""),
    "redundant synchronisation": ("needless_barrier", "PTO5301", "remove"),
    "why is it slow": "no fault of a program: `ptosim cost` names the bound and the stalls",
    "short transfers": "slow, not wrong: `ptosim cost` gives the cycles of each transfer",
    "FIFO protocol": ("freed_twice", "PTO5106", "pop"),
    "global memory read too early": ("store_then_load", "PTO5201", "pto.wait_flag[<PIPE_MTE3>"),
    "porting between targets": ("random_on_a2a3", "PTO3001", "a5"),
    "cannot look inside": "no fault of a program: `ptosim debug` and `run --dump`",
    "friction of tools": "no fault of a program: one pip install, made-up inputs, one header line",
    "global memory out of bounds": ("outside_the_buffer", "PTO6001", "size of the argument"),
    "messages without a place": ("undefined_value", "PTO1001", "did you mean"),
}
SHOWN = [pytest.param(*e, id=e[0]) for e in GALLERY.values() if not isinstance(e, str)]


def findings(name: str) -> list:
    path = source_path(f"@broken/{name}")
    beside = sidecar_of(path)
    assert beside is not None
    args = {n: array_files.parse_spec(s, beside.folder) for n, s in beside.args.items()}
    if "PTO5301" in beside.codes:
        source = Source(str(path), path.read_text(encoding="utf-8"))
        return check_source(source, beside.targets[0], redundant=True).findings
    try:
        loaded = ptosim.load(path, target=beside.targets[0], level=beside.options.get("level"))
        result = loaded.run(args, entry=beside.options.get("entry"))
    except ptosim.ProgramError as problem:
        return problem.diagnostics
    return result.findings


@pytest.mark.parametrize(("name", "code", "cure"), SHOWN)
def test_place_cause_and_cure(name, code, cure):
    found = next(d for d in findings(name) if d.code == code)
    assert found.span is not None, "a place"
    assert found.span.line > 1
    assert len(found.message) > 20, "a cause"
    told = " ".join(
        (found.message, found.help or "", *found.notes, *(x.text for x in found.labels))
    )
    assert cure in told, told


def test_the_manual_shows_the_gallery():
    section = pages()["check"].split("## What hurts most")[1]
    for entry in GALLERY.values():
        if not isinstance(entry, str):
            assert f"`@broken/{entry[0]}`" in section
            assert entry[1] in section


def test_there_are_twenty():
    assert len(GALLERY) == 20
