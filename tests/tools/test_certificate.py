"""Certificates: what the prover finds equal a second checker finds equal, and it refuses what was
changed in a certificate, also where the digest was made anew."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.launch.compare import Choices
from ptosim.tools import certificate as made
from ptosim.tools.certificate import certificate, check
from ptosim.tools.search.prove import Launched
from tests.support.paths import DATA, PROGRAMS
from tests.support.text import Kernel
from tests.tools.search.test_prove_cores import adding as sums_of
from tests.tools.search.test_prove_cores import there_and_back
from tests.tools.search.test_prove_each import DOUBLED, MOVED
from tests.tools.search.test_prove_period import region
from tests.tools.search.test_prove_whole import appended


def adding(pieces: int, word: str = "add", second: str = "y") -> Launched:
    """x + y in one piece or in several."""
    k, rows = Kernel("a2a3"), 16 // pieces
    for at in range(pieces):
        here = {"offsets": (at * rows, 0), "shape": (16, 64)}
        x, y = (k.tile(f"t{n}{at}", "f32", rows, 64) for n in "xy")
        k.load("x", x, (rows, 64), **here)
        k.load(second, y, (rows, 64), **here)
        k.op(f"pto.t{word}", [x, y], [x])
        k.store(x, "z", (rows, 64), **here)
    program = k.program()
    return Launched(program, program.entry(), None, 1)


def written(one: Launched, two: Launched) -> dict[str, Any]:
    return json.loads(json.dumps(certificate(one, two)))


@pytest.fixture(scope="module")
def right() -> dict[str, Any]:
    return written(adding(1), adding(2))


@pytest.fixture(scope="module")
def kinds(right) -> list[dict[str, Any]]:
    """Certificates of rules, of operations as a whole, and of sums."""
    sums = sums_of(1, "%c0", "%c1")
    return [right, written(sorted_rows(), sorted_rows()), written(sums, sums)]


def test_equal_programs_have_a_certificate_that_holds(right) -> None:
    assert check(right) == ""
    assert right["claim"] == (
        "equal for all contents; scalars none; shapes x 16x64 float32, y 16x64 float32, "
        "z 16x64 float32; blocks 1; arguments that do not overlap"
    )
    rules = {(s["op"], s["rule"]) for s in right["argument"][0]}
    assert rules == {("pto.tload", "move"), ("pto.tadd", "each"), ("pto.tstore", "move")}


@pytest.mark.parametrize("other", [adding(2, "sub"), adding(2, second="x")])
def test_other_programs_have_none(other) -> None:
    with pytest.raises(UsageError, match=r"is not the same expression|no argument `y`"):
        certificate(adding(1), other)


def root(target: str, *, scratch: bool) -> Launched:
    """1 / sqrt(x). A2/A3 rounds once without a scratch tile, and both steps with one."""
    k = Kernel(target)
    x, tmp = k.tile("t", "f32", 16, 64), k.tile("tmp", "f32", 16, 64)
    k.load("x", x)
    k.op("pto.trsqrt", [x, tmp] if scratch else [x], [x])
    k.store(x, "y")
    return Launched(k.program())


def test_a_scratch_tile_that_decides_what_is_computed_is_no_detail() -> None:
    """The checker took programs with and without one to be equal."""
    one, other = (root("a2a3", scratch=given) for given in (True, False))
    x = np.linspace(0.1, 9.0, 1024, dtype=np.float32).reshape(16, 64)
    args = {"x": x, "y": np.zeros_like(x)}
    values = [each.program.run(args, timing=False).outputs["y"] for each in (one, other)]
    assert (values[0] != values[1]).any()
    with pytest.raises(UsageError, match="%y is not the same expression"):
        certificate(one, other)
    assert check(written(one, one)) == ""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all that is no list and no table."""
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in leaves(v, (*path, k))]
    if isinstance(value, list):
        return [p for k, v in enumerate(value) for p in leaves(v, (*path, k))]
    return [path]


def damaged(given: dict[str, Any], path: tuple[Any, ...], rng: random.Random) -> dict[str, Any]:
    """A copy with another value at one place."""
    found = copy.deepcopy(given)
    held = found
    for key in path[:-1]:
        held = held[key]
    value = held[path[-1]]
    if isinstance(value, bool):
        held[path[-1]] = not value
    elif isinstance(value, int):
        held[path[-1]] = value + rng.choice([-1, 1, 2])
    elif isinstance(value, str) and value:
        at = rng.randrange(len(value))
        held[path[-1]] = value[:at] + chr((ord(value[at]) - 31) % 94 + 33) + value[at + 1 :]
    else:
        held[path[-1]] = "x"
    return found


def test_a_thousand_damaged_ones_are_refused(kinds) -> None:
    rng = random.Random(43)
    places = [leaves(each) for each in kinds]
    for number in range(1000):
        kind = number % len(kinds)
        given = damaged(kinds[kind], rng.choice(places[kind]), rng)
        try:
            assert check(given)
        except UsageError:
            assert given["format"] != kinds[kind]["format"]


OPEN = {"n": range(1, 4)}


def rounds(text: str, n: int | None = 2) -> Launched:
    """A loop of `n` rounds, or of an open number of them."""
    return Launched(ptosim.load(text, target="a5"), None, None if n is None else {"n": n})


def added(find: str = "", other: str = "", asked: str | None = None, **macros: str) -> Launched:
    """x + y in C++, with one change of its text."""
    text = (DATA / "cpp/01_add.cpp").read_text().replace(find, other or find)
    defines = macros or None
    return Launched(
        ptosim.load(text, filename="a.cpp", target="a2a3", entry=asked, defines=defines)
    )


def newer(kind: str) -> dict[str, Any]:
    """A certificate of FIFOs between cores, of a vector region, of all values, of C++."""
    if kind == "fifo on the chip":
        return written(there_and_back("a5", 2), there_and_back("a5", 2))
    if kind == "fifo in memory":
        return written(there_and_back("a2a3", 1), there_and_back("a2a3", 1))
    if kind == "vector":
        return written(rounds(region("vadd")), rounds(region("vadd")))
    if kind == "forall":
        both = [rounds(text, None) for text in (DOUBLED, MOVED)]
        return json.loads(json.dumps(certificate(both[0], both[1], OPEN)))
    return written(added(), added("TADD(", "ADD(", "launchAdd<float, 32, 64>", ADD="TADD"))


NEWER = ("fifo on the chip", "fifo in memory", "vector", "forall", "cpp")


@pytest.mark.slow
@pytest.mark.parametrize("kind", NEWER)
def test_newer_kinds_hold_and_damaged_ones_are_refused(kind: str) -> None:
    """Of each a thousand with a digest that does not fit, and some with one made anew."""
    rng, right = random.Random(45), newer(kind)
    places = leaves(right)
    for _ in range(1000):
        given = damaged(right, rng.choice(places), rng)
        try:
            assert check(given)
        except UsageError:
            assert given["format"] != right["format"]


@pytest.mark.slow
@pytest.mark.sampled(2, 10)
@pytest.mark.parametrize(("kind", "part"), [(k, p) for p in range(20) for k in NEWER])
def test_a_digest_made_anew_does_not_help_newer_kinds(kind: str, part: int) -> None:
    """Assumptions, rules, counts of operands, hashes, ten of them each."""
    rng, right = random.Random(f"{kind} {part}"), newer(kind)
    assert check(right) == ""
    places = [p for p in leaves(right) if not UNUSED & set(p) and p[0] not in ("format", "version")]
    for path in rng.sample(places, min(10, len(places))):
        given = damaged(right, path, rng)
        given["digest"] = made._digest({k: v for k, v in given.items() if k != "digest"})
        assert check(given), path


def test_what_the_newer_kinds_tell_apart() -> None:
    """The checker alone: another tile in a FIFO, another instruction, another value, another text;
    and what it does not follow it names."""
    trips = (("d", "tadd"), ("x", "tmul"))
    for one, two, scalars in (
        (there_and_back("a5", 2), there_and_back("a5", 2, trips), None),
        (rounds(region("vadd")), rounds(region("vmul")), None),
        (rounds(region("vadd"), None), rounds(region("vmul"), None), OPEN),
        (added(), added("TADD(c, a, b)", "TADD(c, b, a)"), None),
    ):
        with pytest.raises(UsageError, match=r"(%y|%z) is not the same expression"):
            certificate(one, two, scalars)
    with pytest.raises(UsageError, match="a stream that is not aligned"):
        certificate(appended((2, 4)), appended((2, 4)))
    both = [rounds(DOUBLED, None)] * 2
    with pytest.raises(UsageError, match=r"each value by itself, 10,000 at most, not 20,000"):
        certificate(both[0], both[1], {"n": range(1, 20_001)})


def test_more_values_than_can_be_counted_are_no_internal_error() -> None:
    given = newer("forall")
    given["assumptions"]["open"]["n"][1] = 10**30
    given["claim"] = made._claim(given["assumptions"])
    given["digest"] = made._digest({k: v for k, v in given.items() if k != "digest"})
    assert check(given)


def test_a_kernel_that_includes_another_file_has_none(tmp_path) -> None:
    (tmp_path / "other.h").write_text("#define OP TADD\n")
    text = (DATA / "cpp/01_add.cpp").read_text().replace("TADD(", "OP(")
    (tmp_path / "a.cpp").write_text('#include "other.h"\n' + text)
    one = Launched(ptosim.load(tmp_path / "a.cpp", target="a2a3"))
    with pytest.raises(UsageError, match=r"the kernel includes .*other\.h"):
        certificate(one, one)


UNUSED = {"name", "digest", "text", "compat", "planner", "legacy", "level", "sync"}
"""What an argument does not rest on (a name), or that has a test of its own."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(3))
def test_a_digest_made_anew_does_not_help(kinds, kind) -> None:
    """Assumptions, rules, counts of operands, hashes of texts and of results."""
    rng, right = random.Random(44), kinds[kind]
    places = [p for p in leaves(right) if not UNUSED & set(p) and p[0] not in ("format", "version")]
    for path in rng.sample(places, min(60, len(places))):
        given = damaged(right, path, rng)
        given["digest"] = made._digest({k: v for k, v in given.items() if k != "digest"})
        assert check(given), path


def test_a_text_that_computes_something_else_is_refused(right) -> None:
    given = copy.deepcopy(right)
    text = given["programs"][1]["text"].replace("pto.tadd", "pto.tsub")
    given["programs"][1] |= {"text": text, "sha256": made.hashlib.sha256(text.encode()).hexdigest()}
    given["digest"] = made._digest({k: v for k, v in given.items() if k != "digest"})
    assert "is not the same expression" in check(given)


@pytest.mark.slow
def test_a_program_of_tune_has_a_certificate() -> None:
    """Double buffering of the shipped softmax."""
    found = ptosim.tune("@basics/softmax", target="a2a3", trials=8)
    one, two = found.reference, found.best[0].candidate
    first, second = one.launch.of(one.program), two.launch.of(two.program)
    assert check(certificate(first, second)) == ""


@pytest.mark.slow
def test_commands_write_and_check(cli, tmp_path) -> None:
    for name, launched in (("a", adding(1)), ("b", adding(4)), ("c", adding(2, "sub"))):
        (tmp_path / f"{name}.pto").write_text(launched.program.front.source.text)
    a, b, c, file = (tmp_path / n for n in ("a.pto", "b.pto", "c.pto", "proof.json"))
    how = ("--target", "a2a3", "--compat", adding(1).program.compat, "--slower", "10000")
    assert cli("diff", a, b, *how, "--prove", "--certificate", file).code == 0
    done = cli("prove", "--check", file)
    assert done.code == 0
    assert "the certificate holds: equal for all contents" in done.out
    file.write_text(file.read_text().replace("16", "17", 1))
    assert cli("prove", "--check", file).code == 1
    file.write_text("{")
    assert cli("prove", "--check", file).code == 2
    file.write_text("[]")
    assert cli("prove", "--check", file).code == 2
    assert cli("prove", "--check", tmp_path / "none.json").code == 2
    other = tmp_path / "other.json"
    for name, text in (("d", DOUBLED), ("m", MOVED)):
        (tmp_path / f"{name}.pto").write_text(text)
    both = tmp_path / "d.pto", tmp_path / "m.pto", "--target", "a5", "--slower", "10000"
    assert cli("diff", *both, "--prove", "--forall", "n=1..4", "--certificate", file).code == 0
    assert "and all n in 1..4" in cli("prove", "--check", file).out
    assert cli("diff", a, c, *how, "--prove", "--certificate", other).code == 1
    assert not other.exists()
    assert cli("diff", a, b, *how, "--certificate", other).code == 2


# -- operations without a rule ---------------------------------------------------------------------


def sorted_rows() -> Launched:
    """Blocks of 32 values with their numbers, in falling order."""
    k = Kernel("a5")
    values, numbers = k.tile("values", "f32", 1, 32), k.tile("numbers", "i32", 1, 32)
    found, other = k.tile("found", "f32", 1, 64), k.tile("other", "f32", 1, 64)
    k.load("x", values)
    k.load("n", numbers)
    k.op("pto.tsort32", [values, numbers], [found])
    k.op("pto.tabs", [found], [other])
    k.store(other, "y")
    program = k.program()
    return Launched(program, program.entry(), None, 1)


def test_what_has_no_rule_is_followed_as_a_whole() -> None:
    """The certificate names it so, and it holds; a forged text that does something else does not."""
    given = json.loads(json.dumps(certificate(sorted_rows(), sorted_rows())))
    assert check(given) == ""
    rules = {s["op"]: s["rule"] for s in given["argument"][0]}
    assert rules["pto.tsort32"] == "whole"
    text = given["programs"][1]["text"].replace("pto.tabs", "pto.tneg")
    given["programs"][1] |= {"text": text, "sha256": made.hashlib.sha256(text.encode()).hexdigest()}
    given["digest"] = made._digest({k: v for k, v in given.items() if k != "digest"})
    assert "is not the same expression" in check(given)


def test_sums_in_one_order_have_one() -> None:
    """Of one pipe; in another order they are another expression, of two blocks they have none."""
    one, other = sums_of(1, "%c0", "%c1"), sums_of(1, "%c1", "%c0")
    given = written(one, one)
    assert check(given) == ""
    assert "adds" in {s["rule"] for s in given["argument"][0]}
    with pytest.raises(UsageError, match="is not the same expression"):
        certificate(one, other)
    with pytest.raises(UsageError, match="add to one place, in no given order"):
        certificate(sums_of(2, "%block"), sums_of(2, "%block"))


def test_memory_of_another_core_has_no_certificate() -> None:
    """A vector core that writes to L1 writes to the cube core's."""
    choices = Choices(str(PROGRAMS / "cube/gemm_mxfp8.pto")).completed()
    one = Launched(choices.program(), choices.entry, choices.arguments(), choices.block_num)
    with pytest.raises(UsageError, match="it writes memory of another core"):
        certificate(one, one)
