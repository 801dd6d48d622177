"""Equality for all contents: a program altered in anything that matters is found to be another one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import ptosim
from ptosim.launch.array_files import parse_argument
from ptosim.tools.search.prove import Followed, Launched, compare, follow, prove
from ptosim.tools.search.prove_memory import Unprovable
from tests.support.paths import DATA, PROGRAMS

TUNE = DATA / "tune"

OTHER = {
    "tadd": "tsub", "tsub": "tadd", "tmul": "tadd", "tmax": "tmin", "texp": "tneg", "trsqrt": "tsqrt",
    "tmuls": "tadds", "tadds": "tmuls", "trowmax": "trowmin", "trowsum": "trowmax",
    "trowexpandsub": "trowexpandmul", "trowexpanddiv": "trowexpandmul",
    "trowexpandmul": "trowexpanddiv", "tcolexpandmul": "tcolexpandadd",
}  # fmt: skip
"""For each operation another one with the same operands."""


SMALL = {
    "softmax": {"x": "randn:f32:32x300:1", "y": "zeros:f32:32x300", "cols": "300"},
    "rmsnorm": {"x": "randn:bf16:16x1024:1", "w": "randn:bf16:1x1024:2", "y": "zeros:bf16:16x1024"},
    "gemm_f16": {
        "a": "randn:f16:128x256:1", "b": "randn:f16:256x128:2", "out": "zeros:f32:128x128"
    },
}  # fmt: skip


def shipped(name: str) -> str:
    """The text of a program, for small arguments."""
    return (TUNE / f"{name}.pto").read_text().replace("8192", "1024")


def launched(name: str, text: str, target: str = "a2a3") -> Launched:
    args = {key: parse_argument(spec) for key, spec in SMALL[name].items()}
    blocks = 2 if name == "gemm_f16" else 1
    return Launched(ptosim.load(text, target=target), None, args, blocks)


def lines_changed(text: str) -> Iterator[str]:
    """The text with one line altered: an operation, an operand, a number, or the line left out."""
    lines = text.split("\n")
    begin = next(i for i, line in enumerate(lines) if "func.func" in line)
    for index in range(begin + 1, len(lines)):
        for other in set(_altered(lines[index])) - {lines[index]}:
            yield "\n".join([*lines[:index], other, *lines[index + 1 :]])


def _altered(line: str) -> Iterator[str]:
    name = re.search(r"pto\.(\w+(?:\.acc)?) ins\(", line)
    if name and name[1] in OTHER:
        yield line.replace(f"pto.{name[1]} ", f"pto.{OTHER[name[1]]} ")
    if name:
        yield "//" + line
    swapped = re.sub(r"ins\((%\w+), (%\w+)", r"ins(\2, \1", line)
    kinds = re.search(r": (![\w.<>, =?]+), (![\w.<>, =?]+)\) outs", line)
    if swapped != line and kinds and kinds[1] == kinds[2] and name and name[1] in ("tsub",):
        yield swapped
    if "offsets = [%c0" in line:
        yield line.replace("offsets = [%c0", "offsets = [%c1", 1)
    number = re.search(r"arith.constant (\S+) : (\w+)", line)
    if number and number[2] not in ("index", "i64"):
        yield line.replace(f"constant {number[1]}", "constant 0.015625")
    elif number:
        yield line.replace(f"constant {number[1]}", f"constant {int(number[1]) + 32}")
        yield line.replace(f"constant {number[1]}", f"constant {int(number[1]) // 2}")
    if "wait_flag" in line:
        yield "//" + line


def outcome(reference: Followed, name: str, text: str) -> str:
    """`equal`, `unequal`, or `refused`. Programs that are equal give the same bytes."""
    try:
        found = follow(launched(name, text))
    except (Unprovable, ptosim.PtosimError):
        return "refused"
    verdict = compare(reference, found).verdict
    if verdict == "equal":
        for key, array in reference.result.outputs.items():
            assert array.tobytes() == found.result.outputs[key].tobytes()
    return verdict


@pytest.mark.slow
@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("name", SMALL)
def test_every_change_of_a_shipped_program_is_found(name: str) -> None:
    """What is left equal is a tile that moved to bytes which nothing else uses then."""
    text = shipped(name)
    reference = follow(launched(name, text))
    outcomes = {other: outcome(reference, name, other) for other in lines_changed(text)}
    assert list(outcomes.values()).count("unequal") >= 12
    equal = [
        _first_difference(text, other) for other, found in outcomes.items() if found == "equal"
    ]
    assert [line for line in equal if ": i64" not in line] == []


ALTERED = {
    "an operation": ("pto.texp ins(%t", "pto.tneg ins(%t"),
    "an operand": ("ins(%m, %new :", "ins(%new, %m :"),
    "a number": ("constant -3.0e38", "constant -2.0e38"),
    "a window": ("%py = pto.partition_view %vy, offsets = [%c0, %j]", "%py = pto.partition_view %vy, offsets = [%c0, %c0]"),
    "a step left out": ("      pto.tmul ins(%l", "//    pto.tmul ins(%l"),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ALTERED)
def test_one_change_is_told_with_its_place(what: str) -> None:
    text = shipped("softmax")
    proof = prove(launched("softmax", text), launched("softmax", text.replace(*ALTERED[what], 1)))
    assert proof.verdict == "unequal"
    assert "elements of %y are other expressions, the first is element " in proof.why


def test_a_program_is_equal_to_itself_in_other_words() -> None:
    text = shipped("softmax")
    other = text.replace("%tmp", "%scratch").replace("// l += sum", "// sum")
    proof = prove(launched("softmax", text), launched("softmax", other))
    assert proof.is_equal
    assert proof.elements == 2 * 32 * 300


def test_undefined_bytes_are_equal_to_nothing() -> None:
    """A tile that nothing filled, stored by the same program twice."""
    text = re.sub(r".*pto.tload .*\n", "", (PROGRAMS / "basics/vadd.pto").read_text())
    one, two = (Launched(ptosim.load(text, target="a2a3")) for _ in range(2))
    assert prove(one, two).verdict != "equal"


def test_what_cannot_be_followed_is_refused_with_its_line() -> None:
    program = ptosim.load(PROGRAMS / "micro/simt_gather.pto", target="a5")
    proof = prove(Launched(program), Launched(program))
    assert proof.verdict == "refused"
    assert "no rule for this operation (`pto.section.simt`, line " in proof.why


def test_what_would_take_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shipped("gemm_f16")
    monkeypatch.setattr("ptosim.tools.search.prove_memory.MOST_PRODUCTS", 64 * 64 * 128 * 5)
    proof = prove(launched("gemm_f16", text), launched("gemm_f16", text))
    assert proof.verdict == "refused"
    assert "multiplies more than" in proof.why


def test_other_targets_are_no_comparison() -> None:
    text = shipped("softmax")
    proof = prove(launched("softmax", text), launched("softmax", text, "a5"))
    assert proof.verdict == "refused"


def _first_difference(text: str, other: str) -> str:
    pairs = zip(text.split("\n"), other.split("\n"), strict=True)
    return next(b.strip() for a, b in pairs if a != b)
