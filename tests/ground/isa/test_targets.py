"""A target is an architecture plus a chip: which one a program runs on, and that everything obeys the
figures of the chip, which are one file of data."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import ptosim
from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa import targets
from ptosim.ground.isa.cache import isa_directory
from ptosim.ground.isa.costs import cost_table
from ptosim.ground.isa.targets import architectures, chips, machine
from ptosim.shell.main import main

KIB = 1024
TILE = "!pto.tile_buf<vec, 64x{}xf32>"


def module(attributes: str, body: str = "return") -> str:
    return f"module attributes {{{attributes}}} {{ func.func @f() {{\n{body}\n}} }}"


# -- data --------------------------------------------------------------------------------------------


def test_the_chips() -> None:
    assert architectures() == ["a2a3", "a5"]
    assert {"910B1", "910B2", "910B3", "910B4", "910C"} <= set(chips("a2a3"))
    assert {"950DT", "950PR"} <= set(chips("a5"))
    assert (machine("a2a3").name, machine("a5").name) == ("910B1", "950PR")


def test_published_figures() -> None:
    """Clocks (MHz) and cores of the kernels and reports that pto-isa publishes."""
    published = {"910B1": 1850, "910B2": 1800, "910B3": 1800, "910B4": 1500, "910C": 1800}
    assert {chip: cost_table(chip).mhz for chip in published} == published
    assert [machine(c).cores for c in ("910B2", "910B4")] == [(24, 48), (20, 40)]
    assert cost_table("950PR").mhz == 1650


def test_what_no_source_gives_is_assumed() -> None:
    """Nothing is published about the 950DT but its memory."""
    chip = machine("950DT")
    memory = {"cost.machine.hbm", "cost.machine.l2"}
    assert {chip.figures[path]["confidence"] for path in set(chip.own) - memory} == {"assumed"}


def test_every_figure_has_a_unit_a_source_and_a_confidence() -> None:
    for name in chips():
        units = cost_table(name).units
        for path, row in machine(name).figures.items():
            assert row["source"], path
            assert row["confidence"] in targets.CONFIDENCES, path
            known = units if path.startswith("cost.") else machine(name).units
            figures = {k for k, v in row.items() if not isinstance(v, str)}
            assert figures - {"fitted"} <= set(known), path  # that lists which of them are fitted


# -- which one is meant --------------------------------------------------------------------------------

DEVICE = '"pto.device-spec" = "{}"'
MEANT = {
    "nothing": ("", None, "a2a3", "910B1"),
    "a word for an architecture": ("", "950", "a5", "950PR"),
    "the family 910b": ("", "910b", "a2a3", "910B1"),
    "a chip": ("", "910b4", "a2a3", "910B4"),
    "a chip in capitals": ("", "910C", "a2a3", "910C"),
    "the architecture of the module": ('pto.target_arch = "a5"', None, "a5", "950PR"),
    "a device": (DEVICE.format("Ascend910B4"), None, "a2a3", "910B4"),
    "a device with more in its name": (DEVICE.format("Ascend910_9362"), None, "a2a3", "910C"),
    "a family of devices": (DEVICE.format("Ascend910B"), None, "a2a3", "910B1"),
    "architecture and device": (
        'pto.target_arch = "a2a3", ' + DEVICE.format("Ascend910B3"), None, "a2a3", "910B3",
    ),
    "a device of another architecture": (
        'pto.target_arch = "a5", ' + DEVICE.format("Ascend910B3"), None, "a5", "950PR",
    ),
    "a device of A5 wins": (
        'pto.target_arch = "a3", ' + DEVICE.format("Ascend950PR_9579"), None, "a5", "950PR",
    ),
    "so does the family": (
        'pto.target_arch = "a2a3", ' + DEVICE.format("Ascend910_95"), None, "a5", "950PR",
    ),
    "the caller wins over a device of A5": (DEVICE.format("Ascend950"), "a3", "a2a3", "910B1"),
    "the caller asks for the architecture": (DEVICE.format("Ascend910B3"), "a3", "a2a3", "910B3"),
    "the caller asks for another": (DEVICE.format("Ascend910B3"), "a5", "a5", "950PR"),
    "the caller asks for a chip": (DEVICE.format("Ascend910B3"), "910b2", "a2a3", "910B2"),
    "an unknown device": (DEVICE.format("Ascend310"), None, "a2a3", "910B1"),
}  # fmt: skip


@pytest.mark.parametrize("case", MEANT)
def test_which_chip_is_meant(case: str) -> None:
    attributes, asked, target, chip = MEANT[case]
    program = ptosim.load(module(attributes), target=asked)
    assert (program.target, program.chip) == (target, chip)


def test_an_unknown_device_is_a_warning() -> None:
    found = ptosim.check(module(DEVICE.format("Ascend310")))
    (told,) = [d for d in found if d.code == "PTO3005"]
    assert told.severity is ptosim.Severity.WARNING
    assert "Ascend950" in (told.help or "")


def test_an_operation_of_the_other_architecture_names_the_option() -> None:
    tile = "!pto.tile_buf<vec, 16x64xf32>"
    body = f"%a = pto.alloc_tile : {tile}\npto.trandom ins() outs(%a : {tile})\nreturn"
    found = ptosim.check(module("", body), target="910b4")
    assert any("--target a5" in (d.help or "") for d in found if d.code == "PTO3001"), found


def test_the_clock_is_the_chips() -> None:
    """Cycles of work on chip are the same, time is not."""
    body = "\n".join((
        f"%a = pto.alloc_tile : {TILE.format(64)}",
        f"pto.texpands ins(%c : f32) outs(%a : {TILE.format(64)})",
        f"pto.tabs ins(%a : {TILE.format(64)}) outs(%a : {TILE.format(64)})",
        "return",
    )).replace("pto.texpands", "%c = arith.constant 1.0 : f32\npto.texpands")  # fmt: skip
    one = ptosim.load(module("", body), target="910b1")
    usual, slow = one.cost(), one.cost(target="910b4")
    assert usual.cycles == slow.cycles
    assert slow.microseconds == pytest.approx(usual.microseconds * 1850 / 1500)
    assert (slow.target, slow.chip) == ("a2a3", "910B4")


def test_chips_of_one_architecture_are_told_apart() -> None:
    """Columns, JSON keys and the first lines of the reports."""
    words = ("cost", "@basics/vadd", "--target", "910b1,910b4")
    found = data_of(*words)["targets"]
    assert [(n, r["target"], r["chip"]) for n, r in found.items()] == [
        ("a2a3", "a2a3", "910B1"),
        ("910B4", "a2a3", "910B4"),
    ]
    text = told(*words)[1]
    assert re.search(r"^ +a2a3 +910B4$", text, re.MULTILINE)
    assert text.count("chip 910B4") == 1
    assert "on 910B4" in told("port", "@basics/vadd", "--from", "910b1", "--to", "910b4")[1]


def test_kernels_are_made_for_an_architecture() -> None:
    code, text = told("quant", "explore", "randn:f32:8x64", "--target", "910b4")
    assert (code, "910B4" in text) == (2, True)


# -- a new chip is one file ----------------------------------------------------------------------------

CHIP = """
schema = 1
name = "955X"
architecture = "a5"
title = "Ascend 955X"
words = ["955x"]
devices = ["Ascend955X"]

[space.vec]
bytes = 196608
planner = 196608
safe = 196608
source = "invented"
confidence = "assumed"

[cores]
cube = 4
vector = 8
source = "invented"
confidence = "assumed"

[events]
ids = 2
source = "invented"
confidence = "assumed"

[cost.machine.clock]
mhz = 1000
source = "invented"
confidence = "assumed"

[cost.machine.read_total]
gib_per_second = 10
source = "invented"
confidence = "assumed"

[cost.machine.write_total]
gib_per_second = 10
source = "invented"
confidence = "assumed"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of the ISA with one more file."""
    made = tmp_path_factory.mktemp("isa") / "isa"
    shutil.copytree(isa_directory(), made)
    (made / "targets" / "955x.toml").write_text(CHIP, encoding="utf-8")
    return made


def forget() -> None:
    for cache in (isa_directory, targets._files, machine, cost_table):
        cache.cache_clear()


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data are those with the new chip."""
    monkeypatch.setenv("PTOSIM_ISA_DIR", str(made))
    monkeypatch.setenv("COLUMNS", "200")
    forget()
    yield made.parent
    monkeypatch.undo()
    forget()


def told(*words: str | Path) -> tuple[int, str]:
    """The exit code of a command and what it says."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main([str(w) for w in words])
    return code, out.getvalue()


def data_of(*words: str | Path) -> dict:
    code, text = told(*words, "--format", "json")
    assert code == 0, text
    return json.loads(text)


def kernel(
    folder: Path, columns: int, attributes: str = "", tiles: int = 1, together: bool = True
) -> Path:
    """Loads and stores tiles of 64 rows of f32, all of them live at the same time or in turn."""
    tile = TILE.format(columns)
    lines = ["%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index"]
    lines += ["%rows = arith.constant 64 : index", f"%cols = arith.constant {columns} : index"]
    view, part = "!pto.tensor_view<?x?xf32>", f"!pto.partition_tensor_view<64x{columns}xf32>"
    lines.append(
        "%v = pto.make_tensor_view %x, shape = [%rows, %cols], strides = [%cols, %c1] : " + view
    )
    lines.append(
        f"%p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%rows, %cols] : {view} -> {part}"
    )
    every = range(tiles)
    lines += [f"%t{i} = pto.alloc_tile : {tile}" for i in every]
    loads = [f"pto.tload ins(%p : {part}) outs(%t{i} : {tile})" for i in every]
    stores = [f"pto.tstore ins(%t{i} : {tile}) outs(%p : {part})" for i in every]
    lines += (
        [*loads, *stores]
        if together
        else [x for pair in zip(loads, stores, strict=True) for x in pair]
    )
    text = "func.func @k(%x: !pto.ptr<f32>) {\n" + "\n".join(lines) + "\nreturn\n}"
    file = folder / f"k{columns}_{tiles}.pto"
    file.write_text(f"module attributes {{{attributes}}} {{\n{text}\n}}\n", encoding="utf-8")
    return file


def test_the_planner_obeys(folder: Path) -> None:
    """Seven tiles of 32 KiB are 224 KiB: they fit the 950PR (248 KiB), not the new chip (192 KiB)."""
    file = kernel(folder, 128, tiles=7)
    for command in ("check", "run", "cost", "map"):
        assert told(command, file, "--target", "a5")[0] == 0, command
        code, text = told(command, file, "--target", "955x")
        assert code == 3, (command, text)
        assert "PTO4001" in text, command


def test_check_and_run_obey(folder: Path) -> None:
    """Six tiles of 32 KiB fill 192 KiB exactly; the module names the chip by its device."""
    file = kernel(folder, 128, DEVICE.format("Ascend955X_1"), tiles=6)
    assert " chip 955X " in told("check", file)[1]
    ran = data_of("run", file)
    assert (ran["target"], ran["chip"]) == ("a5", "955X")


def test_a_tile_beyond_the_end_is_refused(folder: Path) -> None:
    """Bytes 192 KiB to 208 KiB exist on the 950PR only."""
    tile = TILE.format(64)
    lines = (f"%a = arith.constant {192 * KIB} : i64", f"%t = pto.alloc_tile addr = %a : {tile}")
    file = folder / "beyond.pto"
    file.write_text(module("", "\n".join((*lines, "return"))), encoding="utf-8")
    assert told("check", file, "--target", "a5")[0] == 0
    code, text = told("check", file, "--target", "955x")
    assert (code, "PTO4353" in text) == (3, True), text


def test_cost_obeys(folder: Path) -> None:
    """16 KiB at 10 GiB/s and 1 GHz take 1526 cycles each way, on the 950PR far fewer."""
    both = data_of("cost", kernel(folder, 64), "--target", "a5,955x")["targets"]
    each = 64 * 64 * 4 / (10 * 2**30) * 1e9
    assert both["955X"]["mhz"] == 1000
    assert both["a5"]["cycles"] < 2 * each < both["955X"]["cycles"]
    assert both["955X"]["microseconds"] == pytest.approx(both["955X"]["cycles"] / 1000, abs=1e-3)


def test_map_obeys(folder: Path) -> None:
    found = data_of("map", kernel(folder, 64), "--target", "955x")
    assert found["chip"] == "955X"
    assert 192 * KIB in found["spaces"][0].values()


def test_inserted_flags_obey(folder: Path) -> None:
    """The chip has two event ids between two pipes, the architecture eight."""
    file = kernel(folder, 64, tiles=5, together=False)
    few, many = (
        set(re.findall(r"EVENT_ID\d", told("fmt", "--insert-sync", file, "--target", t)[1]))
        for t in ("955x", "a5")
    )
    assert few < many
    assert few <= {"EVENT_ID0", "EVENT_ID1"}


@pytest.mark.parametrize(("target", "code"), [("955x", 4), ("a5", 0)])
def test_event_ids_of_the_text_obey(folder: Path, target: str, code: int) -> None:
    """The chip has the event ids 0 and 1; the architecture has 3, too."""
    file = folder / "flags.pto"
    lines = (f"pto.{op}_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID3>]" for op in ("set", "wait"))
    text = "\n".join(("func.func @f() {", *lines, "return", "}"))
    file.write_text(f"{text}\n", encoding="utf-8")
    assert told("run", str(file), "--target", target)[0] == code


def test_it_is_listed(folder: Path) -> None:
    spaces = data_of("targets")["a5"]["chips"]["955X"]["spaces"]
    assert (spaces["vec"]["bytes"], spaces["vec"]["source"]) == (192 * KIB, "invented")
    assert spaces["mat"]["bytes"] == machine("a5").spaces["mat"].bytes
    assert re.search(r"955X +955x +a5 +4 +8 +1000 +192 +assumed", told("targets")[1])
    assert re.search(r"955X +space\.vec +bytes 196,608 bytes", told("targets")[1])


BROKEN = {
    "no source": ('source = "invented"', 'source = ""', "has no source"),
    "no confidence": ('confidence = "assumed"', 'confidence = "sure"', "or confidence"),
    "more than there is": ("safe = 196608", "safe = 253952", "space.vec"),
    "no such architecture": ('architecture = "a5"', 'architecture = "a9"', "no architecture a9"),
    "a row that is missing": ("[cores]", "[extra]", "cores"),
    "a field too many": ("safe = 196608", "safe = 196608\nrate = 1", "rate"),
    "no unit": ("cube = 4", "cubes = 4", "no unit for cubes"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_wrong_file_is_refused(fault: str, folder: Path) -> None:
    old, new, message = BROKEN[fault]
    file = folder / "isa" / "targets" / "955x.toml"
    file.write_text(CHIP.replace(old, new, 1), encoding="utf-8")
    try:
        with pytest.raises(IsaDataError, match=message):
            machine("955X")
    finally:
        file.write_text(CHIP, encoding="utf-8")
