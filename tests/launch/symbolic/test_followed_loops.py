"""`check` leaves out rounds of a loop that are proven to find what the ones before found: it finds
what following every round finds, and comes to the end of loops of any length."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.engine.period import followed
from ptosim.ground.source import Source
from ptosim.launch import dry_run
from ptosim.ops.lower.program import expand
from tests.launch.symbolic.loops import COLUMNS, PART, ROWS, TILE, VIEW, flag, grid, kernel


@pytest.fixture
def left_out(monkeypatch) -> list[int]:
    """How many periods were left out each time."""
    found: list[int] = []
    leave_out = followed.FollowedLoops._leave_out

    def noted(self, trial, periods, gains, sweep):
        found.append(periods)
        leave_out(self, trial, periods, gains, sweep)

    monkeypatch.setattr(followed.FollowedLoops, "_leave_out", noted)
    return found


def outcome(text: str, *, in_full: bool) -> tuple[object, ...]:
    """What following a kernel to its end brings out."""
    program = ptosim.load(text, sync="manual")
    parts = program.front, program.profile, program.entry(None), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dry_run, "COMPARED", 10**9 if in_full else 0)
        result = dry_run.follow(*parts, budget=None)
    findings = [(d.code, d.message, *map(str, d.spans)) for d in result.findings]
    return result.ended, findings, result.unplaced, result.unchecked


@pytest.mark.sampled(6, 16)
@pytest.mark.parametrize("seed", range(700))
def test_the_findings_are_those_of_every_round(seed):
    text = kernel(seed)
    assert outcome(text, in_full=False) == outcome(text, in_full=True)


@pytest.mark.sampled(0, 5)
@pytest.mark.parametrize("seed", range(300))
def test_the_same_with_tile_operations_as_vector_regions(seed):
    text = kernel(seed, targets=("a5",))
    text = expand(Source("k.pto", text), "a5").text
    assert outcome(text, in_full=False) == outcome(text, in_full=True)


@pytest.mark.slow
def test_rounds_are_left_out_of_many_of_them(left_out):
    """Otherwise the test above would show nothing."""
    counts = []
    for seed in range(24):
        left_out.clear()
        outcome(kernel(seed), in_full=False)
        counts.append(sum(left_out))
    assert sum(map(bool, counts)) >= 4


ROUNDS = 10**9


def long_loop(body: str, after: str = "", rows: int = 64, rounds: int = ROUNDS) -> str:
    """A loop of so many rounds; `%row` moves by `rows` rows a round."""
    numbers = {"c0": 0, "c1": 1, "c16": 16, "c64": 64, "many": rounds, "columns": COLUMNS}
    lines = [f"%{name} = arith.constant {value} : index" for name, value in numbers.items()]
    lines += [f"%step = arith.constant {rows} : index", "%all = arith.constant 16384 : index"]
    lines += [
        f"%{n} = pto.make_tensor_view %p{n}, shape = [%all, %columns], strides = [%columns, %c1] : "
        f"{VIEW}"
        for n in "xz"
    ]
    for number, name in enumerate("ab"):
        lines.append(f"%at{name} = arith.constant {4096 * number} : i64")
        lines.append(f"%{name} = pto.alloc_tile addr = %at{name} : {TILE}")
    lines += ["scf.for %i = %c0 to %many step %c1 {", "%row = arith.muli %i, %step : index"]
    text = "\n".join([*lines, body, "}", after])
    return (
        'module attributes {pto.target_arch = "a5"} {\n'
        f"func.func @k(%px: !pto.ptr<f32>, %pz: !pto.ptr<f32>) {{\n{text}\nreturn\n}}\n}}\n"
    )


def window(view: str, row: str, name: str) -> str:
    return (
        f"%{name} = pto.partition_view %{view}, offsets = [{row}, %c0], sizes = [%c16, %c64] : "
        f"{VIEW} -> {PART}\n"
    )


LOAD = f"pto.tload ins(%p : {PART}) outs(%a : {TILE})\n"
ADD = f"pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%b : {TILE})\n"
STORE = f"pto.tstore ins(%b : {TILE}) outs(%q : {PART})\n"
ROUND = (
    f"{LOAD}{flag('MTE2', 'V')}{ADD}{flag('V', 'MTE3')}{STORE}{flag('MTE3', 'V')}"
    f"{flag('V', 'MTE2')}"
)


def codes(text: str) -> list[str]:
    found = ptosim.check(text, sync="manual")
    return [d.code for d in found if not d.code.startswith("PTO74")]


def test_a_loop_of_any_length_is_followed_to_its_end(left_out):
    """The windows stay where they are; the note that something was not followed would be a
    finding."""
    text = long_loop(window("x", "%c0", "p") + window("z", "%c0", "q") + ROUND)
    assert codes(text) == []
    assert left_out
    assert left_out[0] > ROUNDS - 100


def test_a_number_with_a_fraction_may_move_as_it_likes(left_out):
    """It is no place: what a round does is the same whatever it is."""
    number = (
        "%w = arith.index_cast %i : index to i64\n%f = arith.sitofp %w : i64 to f32\n"
        f"pto.tadds ins(%b, %f : {TILE}, f32) outs(%b : {TILE})\n"
    )
    body = window("x", "%c0", "p") + window("z", "%c0", "q") + ROUND.replace(ADD, ADD + number)
    assert codes(long_loop(body)) == []
    assert left_out
    assert left_out[0] > ROUNDS - 100


def test_what_comes_after_a_long_loop_is_found():
    body = window("x", "%c0", "p") + window("z", "%c0", "q") + ROUND
    assert codes(long_loop(body, "%never = arith.divsi %c1, %c0 : index")) == ["PTO6007"]


def test_a_guard_at_one_round_of_many_is_followed(left_out):
    """In round 700,000,000 nothing orders the addition after the store before it."""
    body = window("x", "%c0", "p") + window("z", "%c0", "q") + ROUND.replace(flag("MTE3", "V"), "")
    guard = "%then = arith.constant 700000000 : index\n%is = arith.cmpi eq, %i, %then : index\n"
    late = f"{guard}scf.if %is {{\n{ADD}}}\n"
    right = window("x", "%c0", "p") + window("z", "%c0", "q") + ROUND
    assert "PTO5202" in codes(long_loop(body))
    assert codes(long_loop(right + late)) == ["PTO5202"]
    assert len(left_out) >= 2


def test_windows_that_move_are_swept(left_out):
    """1,000 rounds on rows of their own; the last one ends where the view ends, one more is
    outside of it."""
    body = window("x", "%row", "p") + window("z", "%row", "q") + ROUND
    assert codes(long_loop(body, rows=16, rounds=1024)) == []
    assert left_out
    outside = codes(long_loop(body, rows=16, rounds=1025))
    assert "PTO6001" in outside or "PTO2026" in outside


def test_windows_that_move_over_gigabytes_are_swept(left_out):
    """Tiles that follow one another: what is stored is one piece of 4 GB, and what comes after the
    loop is followed, too."""
    rounds = 10**6
    body = window("x", "%row", "p") + window("z", "%row", "q") + ROUND
    text = long_loop(body, "%never = arith.divsi %c1, %c0 : index", rows=16, rounds=rounds)
    for old, new in ((f"{ROWS}x{COLUMNS}xf32", f"{16 * rounds}x64xf32"),
                     ("%columns = arith.constant 1024", "%columns = arith.constant 64"),
                     ("%all = arith.constant 16384", f"%all = arith.constant {16 * rounds}")):  # fmt: skip
        text = text.replace(old, new)
    assert codes(text) == ["PTO6007"]
    assert sum(left_out) > rounds - 100


HALO = "!pto.partition_tensor_view<18x64xf32>"
TALL = "!pto.tile_buf<vec, 18x64xf32>"


def stencil(rows: int, rounds: int, after: str = "") -> str:
    """Rounds that load 18 rows, of which the next round loads some again."""
    window_ = (
        f"%p = pto.partition_view %x, offsets = [%row, %c0], sizes = [%c18, %c64] : "
        f"{VIEW} -> {HALO}\n"
    )
    load = f"pto.tload ins(%p : {HALO}) outs(%s : {TALL})\n"
    body = (
        window_ + window("z", "%row", "q") + ROUND.replace(LOAD, LOAD.replace("%p", "%same") + load)
    )
    body = window("x", "%c0", "same") + body
    head = (
        "%c18 = arith.constant 18 : index\n%ats = arith.constant 16384 : i64\n"
        f"%s = pto.alloc_tile addr = %ats : {TALL}\n"
    )
    return long_loop(body, after, rows=rows, rounds=rounds).replace(
        "%step = arith", f"{head}%step = arith", 1
    )


@pytest.mark.parametrize(("rows", "late"), [(16, "x"), (16, "z"), (8, "x"), (1, "x"), (17, "z")])
def test_rows_that_rounds_share_are_swept(rows, late, left_out):
    """Of what is only loaded; what rounds store, too, is looked at in each of them."""
    assert set(codes(stencil(16, 900))) <= {"PTO7101"}
    assert left_out[0] > 800
    after = f"%late = arith.constant {rows * 100} : index\n" + window(late, "%late", "again")
    after += f"pto.tstore ins(%b : {TILE}) outs(%again : {PART})\n"
    text = stencil(rows, 200, after)
    assert outcome(text, in_full=False) == outcome(text, in_full=True)


def scalar_store(element: int, number: int = 0) -> str:
    """A store of the scalar unit into the array that the loop stores to."""
    return (
        f"%w{number} = arith.constant {element} : index\n%v{number} = arith.constant 1.0 : f32\n"
        f"pto.store_scalar %v{number}, %pz[%w{number}] : !pto.ptr<f32>, f32\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("row", [0, 1_500, 4_799])
def test_a_scalar_store_meets_the_lines_of_rounds_that_were_left_out(row, left_out):
    body = window("x", "%row", "p") + window("z", "%row", "q") + ROUND
    element = COLUMNS * row + 40
    done = "pto.barrier <PIPE_ALL>\n"
    text = long_loop(body, done + scalar_store(element), rows=16, rounds=300)
    assert codes(text) == ["PTO5251"]
    assert left_out
    assert outcome(text, in_full=False) == outcome(text, in_full=True)
    beside = long_loop(body, done + scalar_store(element + 64), rows=16, rounds=300)
    assert codes(beside) == []


@pytest.mark.sampled(0, 8)
@pytest.mark.parametrize("where", ["before", "in", "after"])
@pytest.mark.parametrize("seed", range(6))
def test_scalar_stores_beside_loops(seed, where):
    """Before a loop, in each of its rounds, and after it."""
    lines = kernel(seed).splitlines()
    heads = [at for at, line in enumerate(lines) if "scf.for" in line]
    end = next(at for at, line in enumerate(lines) if line.strip() == "return")
    at = {"before": heads[0], "in": heads[-1] + 1, "after": end}[where]
    element = (3, COLUMNS * 16 * 50 + 3, COLUMNS * ROWS - 20)[seed % 3]
    lines.insert(at, scalar_store(element, 99_999))
    text = "\n".join(lines)
    assert outcome(text, in_full=False) == outcome(text, in_full=True)


@pytest.mark.slow
def test_rows_that_a_loop_has_stored_are_not_loaded_without_order(left_out):
    """Nothing tells the load after the loop that the last rows were stored."""
    body = window("x", "%row", "p") + window("z", "%row", "q") + ROUND
    body = body.replace(flag("MTE3", "V"), "").replace(flag("V", "MTE2"), "")
    body += "pto.barrier <PIPE_V>\n"
    for row in (0, 700, 1008):
        after = f"%late = arith.constant {row} : index\n" + window("z", "%late", "again")
        after += f"pto.tload ins(%again : {PART}) outs(%a : {TILE})\n"
        text = long_loop(body, after, rows=16, rounds=64 * 10)
        assert outcome(text, in_full=False) == outcome(text, in_full=True)
    assert left_out


def test_loops_in_loops_are_left_out_too(left_out):
    """A million rounds of a million rounds each."""
    body = window("x", "%c0", "p") + window("z", "%c0", "q")
    inner = f"{body}scf.for %j = %c0 to %many step %c1 {{\n{ROUND}}}\n"
    text = long_loop(inner, rounds=10**6)
    assert codes(text) == []
    assert len(left_out) >= 2


def test_a_grid_of_tiles_is_followed_to_its_end():
    """Of 2,048 tiles, and of 16,384, each with 14 instructions or more."""
    assert codes(grid(32, 256)) == []
    assert codes(grid(16, 64)) == []
    wrong = grid(32, 256).replace(flag("V", "MTE3"), "")
    assert codes(wrong) == ["PTO5201"]


def test_rounds_of_many_instructions_are_left_out_while_loops_are():
    """A round of the outer loop takes 10,000 instructions: after a loop of which rounds were left
    out the budget begins anew."""
    text = expand(Source("k.pto", grid(32, 256)), "a5").text
    assert codes(text) == []
