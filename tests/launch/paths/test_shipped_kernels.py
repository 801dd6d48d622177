"""The shipped kernels for all arguments, without what their sidecars say: each is followed to its
end, what is not shown is named, and inside of what it requires it runs."""

from __future__ import annotations

import random

import pytest

import ptosim
from tests.launch.paths.test_inside_and_outside import met
from tests.support.paths import PROGRAMS


def has_scalars(text: str) -> bool:
    """True if the first function takes whole numbers."""
    head = text.partition("func.func")[2].partition("\n")[0]
    return ": index" in head.partition("(")[2]


KERNELS = [
    path.relative_to(PROGRAMS).as_posix()
    for folder in ("basics", "cube", "model")
    for path in sorted((PROGRAMS / folder).glob("*.pto"))
    if has_scalars(path.read_text())
]
READS = "what is read in its rounds decides in line"
UNPROVEN = {
    "cube/gemm_grid.pto": "more than 30,000 instructions would show it",
    "cube/gemm_mxfp8_grid.pto": "more than 30,000 instructions would show it",
    "model/kv_update.pto": f"{READS} 48",
    "model/paged_attention.pto": f"{READS} 83",
    "model/route_metadata.pto": "instructions were followed",
}
"""Kernels whose loops are not shown to repeat, and why; each path of the others is followed."""
SIZES = (1, 2, 4, 16, 64, 128, 256, 512, 1000)


@pytest.mark.sampled(2, 4)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_followed_without_its_sidecar(name):
    text = (PROGRAMS / name).read_text()
    found = ptosim.check(text)
    assert [d.code for d in found if d.is_error] == []
    assert found.coverage
    for made in found.coverage:
        assert made["valid"]
        assert all(each["why"] for each in made["open"])
        assert (made["trips"] == "proven") == (made["loops"] == [])
        assert all(each["line"] and each["why"] for each in made["loops"])
        why = UNPROVEN.get(name)
        assert (made["paths"] == "all") == (why is None), made
        assert all(why and each["why"].endswith(why) for each in made["loops"])
    if not any(made.get("unsaid") for made in found.coverage):
        assert _runs_inside(text, found.requirements)


def _runs_inside(text: str, required: list[dict]) -> bool:
    """True if values were found that meet what a kernel requires, with which nothing breaks."""
    program = ptosim.load(text)
    entry = program.entries[0]
    names = [a.name for a in program.signature(entry) if a.kind == "scalar"]
    asked = [r for r in required if r["kind"] != "data" and r["entry"] == entry]
    chosen, tried = random.Random(1), 0
    for _ in range(2000):
        values = {name: chosen.choice(SIZES) for name in names}
        if met(asked, {**values, "block": 0, "blocks": 1}):
            tried += 1
            every = ptosim.check(text, entry=entry, args=values, explore=False)
            assert not [d for d in every if d.is_error or d.code in ("PTO6101", "PTO6055")], values
        if tried == 3:
            return True
    return tried > 0
