"""Verdicts on candidates: as constructed, in order, the same for any number of workers."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.ground.isa.cache import isa_directory, programs_directory
from ptosim.tools.search.judge import least_cycles
from tests.tools.search import candidates as made

NO_VALUES = ("10**400", "(lambda: 0)", "[[1], [2, 3]]", "np.zeros((8, 64)) * 1j", "None",
             "exit(9)")  # fmt: skip
BACK = made.ADD.replace("tadd", "tsub").replace("%a, %b", "%c, %b")
KEYS = ["id", "ok", "stage", "score", "cycles", "diagnostics"]


def told(verdict: dict) -> tuple:
    return verdict["id"], verdict["ok"], verdict["stage"]


@pytest.mark.parametrize(
    "kind", [made.good, made.wrong, made.racy, made.endless, made.hungry, made.broken]
)
def test_each_kind_gets_its_verdict(kind) -> None:
    wanted = [kind(number) for number in range(3)]
    found = ptosim.judge([m.job for m in wanted])
    assert [told(v) for v in found] == [(m.job["id"], m.ok, m.stage) for m in wanted], found
    for verdict in found:
        assert list(verdict) == KEYS
        errors = [d for d in verdict["diagnostics"] if d["severity"] == "error"]
        assert bool(errors) is not verdict["ok"]
        assert (verdict["score"] > 0) is verdict["ok"]


def test_cheats_are_found(tmp_path: Path) -> None:
    wanted = [made.cheating(number, tmp_path) for number in range(6)]
    found = ptosim.judge([m.job for m in wanted])
    assert [told(v) for v in found] == [(m.job["id"], False, "values") for m in wanted]
    # The constant is right on the inputs of the job, and on no others.
    (verdict,) = ptosim.judge([wanted[0].job], fresh=0)
    assert verdict["ok"], verdict


def test_a_program_that_adds_to_its_output_keeps_its_zeros() -> None:
    text = made.kernel(0, made.LOAD_X + made.LOAD_Y + made.ADD + made.STORE, 8)
    adding = text.replace(
        "outs(%pz : !pto.partition_tensor_view<8x64xf32>)",
        "outs(%pz : !pto.partition_tensor_view<8x64xf32>) {atomicType = #pto<atomic_type atomic_add>}",
    )
    assert adding != text
    job = {"text": adding, "target": "a2a3", "args": made.ARGS, "expect": made.SUM}
    (verdict,) = ptosim.judge([job])
    assert verdict["ok"], verdict


def test_the_score_is_launches_in_a_millisecond() -> None:
    job = {"program": "@basics/vadd", "target": "a2a3,a5"}
    (verdict,) = ptosim.judge([job])
    times = []
    for target, cycles in verdict["cycles"].items():
        cost = ptosim.load(programs_directory() / "basics/vadd.pto", target=target).cost()
        assert cost.cycles == cycles
        assert cycles >= least_cycles(cost)
        times.append(cost.microseconds)
    assert list(verdict["cycles"]) == ["a2a3", "a5"]
    assert verdict["score"] == pytest.approx(1000 / np.sqrt(times[0] * times[1]), rel=1e-6)


def test_no_launch_is_faster_than_the_memory() -> None:
    cost = ptosim.load(programs_directory() / "basics/vadd.pto", target="a2a3").cost()
    machine = tomllib.loads((isa_directory() / "targets/910b1.toml").read_text())["cost"]["machine"]
    rate, mhz = machine["write_total"]["gib_per_second"], machine["clock"]["mhz"]
    a_cycle = rate * 2**30 / (mhz * 1e6)  # bytes, for all cores together
    assert least_cycles(cost, written=10**9) == int(10**9 / a_cycle)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "no JSON"),
        ("[1]", "no JSON object"),
        ('{"id": 7}', "either `program` or `text`"),
        ('{"id": 7, "text": "a", "program": "b"}', "either `program` or `text`"),
        ('{"id": 7, "program": "/nowhere/x.pto"}', "cannot read"),
        ('{"id": 7, "text": "a", "expct": {}}', "expct"),
        ('{"id": 7, "text": "a", "seeds": [-1]}', "seeds"),
        ('{"id": 7, "text": "a", "limits": {"seconds": "x"}}', "max_seconds"),
        ('{"id": 7, "text": "a", "expect": {"z": {"rtol": 1}}}', "either `file` or `python`"),
        ('{"id": 7, "text": "a", "args": {"x": [1]}}', "no SPEC"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_job_is_a_verdict(line: str, said: str) -> None:
    (verdict,) = ptosim.judge([line])
    assert list(verdict) == KEYS
    assert told(verdict) == (7 if '"id": 7' in line else 1, False, "parse")
    (diagnostic,) = verdict["diagnostics"]
    assert diagnostic["code"] == "PTO7609"
    assert said in diagnostic["message"]


@pytest.mark.parametrize(
    ("expect", "code"),
    [
        ({"z": {"python": "1 / 0"}}, "PTO7613"),
        ({"z": {"python": "np.zeros(3)"}}, "PTO7613"),
        *(({"z": {"python": text}}, "PTO7613") for text in NO_VALUES),
        ({"z": {"file": "@x"}}, "PTO7614"),
        ({"z": {"python": "nowhere.py:f"}}, "PTO7603"),
        ({"z": {"python": "n" * 300 + ".py:f"}}, "PTO7603"),
        ({"z": {"file": "nowhere.npy"}}, "PTO7614"),
        ({"nobody": {"python": "x"}}, "PTO7612"),
    ],
)
def test_a_reference_that_gives_nothing_is_said(expect: dict, code: str) -> None:
    (verdict,) = ptosim.judge([{**made.good(0).job, "expect": expect}])
    assert (verdict["stage"], verdict["diagnostics"][0]["code"]) == ("values", code)


def test_a_name_that_no_file_can_have_is_a_verdict(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text(json.dumps({"program": "n" * 300}) + "\n" + json.dumps(made.good(0).job))
    found = ptosim.judge(path)
    assert [(v["ok"], v["stage"]) for v in found] == [(False, "parse"), (True, "done")]


def test_the_command_writes_lines_in_order(cli, tmp_path: Path) -> None:
    wanted = [made.good(1), made.wrong(1), made.broken(0)]
    path, out = tmp_path / "jobs.jsonl", tmp_path / "verdicts.jsonl"
    path.write_text("".join(json.dumps(m.job) + "\n\n" for m in wanted))
    shown = cli("judge", path)
    assert shown.code == 1
    assert "3 candidates" in shown.err
    found = [json.loads(line) for line in shown.out.splitlines()]
    assert [told(v) for v in found] == [(m.job["id"], m.ok, m.stage) for m in wanted]
    again = cli("judge", path, "-o", out, "--times", "-q")
    assert (again.code, again.out, again.err) == (1, "", "")
    assert all("seconds" in json.loads(line) for line in out.read_text().splitlines())
    path.write_text(path.read_text() + "no job\n")
    assert cli("judge", path).code == 2
    path.write_text(json.dumps(wanted[0].job))
    assert cli("judge", path).code == 0
    assert cli("judge", tmp_path / "nowhere.jsonl").code == 2


def test_files_are_looked_for_beside_the_jobs(tmp_path: Path) -> None:
    (tmp_path / "k.pto").write_text(made.good(1).job["text"])
    (tmp_path / "ref.py").write_text("def f(x, y, z):\n    return {'z': x + y}\n")
    made.answer(tmp_path)
    jobs = [
        {
            "id": "python",
            "program": "k.pto",
            "args": made.ARGS,
            "expect": {"z": {"python": "ref.py:f"}},
        },
        {
            "id": "file",
            "program": "k.pto",
            "args": made.ARGS,
            "expect": {"z": {"file": "answer.npy"}},
        },
    ]
    path = tmp_path / "jobs.jsonl"
    path.write_text("".join(json.dumps(job) + "\n" for job in jobs))
    assert [told(v) for v in ptosim.judge(path)] == [
        ("python", True, "done"),
        ("file", True, "done"),
    ]


@pytest.mark.slow
def test_a_worker_that_ends_is_one_failed_job(tmp_path: Path) -> None:
    wanted = list(made.candidates(40, tmp_path))
    jobs = [m.job for m in wanted]
    (tmp_path / "ends.py").write_text("import os\ndef f(**args):\n    os._exit(9)\n")
    jobs[20] = {**jobs[20], "expect": {"z": {"python": f"{tmp_path / 'ends.py'}:f"}}}
    alone = ptosim.judge(jobs[:20] + jobs[21:], seed=1)
    found = ptosim.judge(jobs, workers=2, seed=1)
    assert found[20]["diagnostics"][0]["code"] == "PTO7611"
    assert [told(v) for v in found[:20] + found[21:]] == [told(v) for v in alone]


@pytest.mark.slow
def test_the_bytes_are_the_same_for_any_number_of_workers(cli, tmp_path: Path) -> None:
    """Without a seed too, though the inputs are others each time."""
    path = tmp_path / "jobs.jsonl"
    wanted = list(made.candidates(60, tmp_path))
    path.write_text("".join(json.dumps(m.job) + "\n" for m in wanted))
    texts = [cli("judge", path, "-j", n).out for n in (1, 3)]
    assert texts[0] == texts[1]
    found = [told(json.loads(line)) for line in texts[0].splitlines()]
    assert found == [(m.job["id"], m.ok, m.stage) for m in wanted]


def test_hard_inputs_show_what_normal_ones_hide() -> None:
    """x + y once more minus y gives x back on whole numbers, and not where y is large."""
    body = made.LOAD_X + made.LOAD_Y + made.ADD + BACK + made.STORE
    job = {**made.good(0).job, "text": made.kernel(0, body, 8)}
    job["args"] = {n: s.replace("randn", "randint") for n, s in job["args"].items()}
    job["expect"] = {name: {"python": "x"} for name in job["expect"]}
    first, second = ptosim.judge([job, {**job, "inputs": "hard"}], seed=1)
    assert first["ok"]
    assert (second["ok"], second["stage"]) == (False, "values")
    assert "of the kind `hard`" in second["diagnostics"][0]["message"]


def test_a_kind_of_inputs_that_there_is_not() -> None:
    (verdict,) = ptosim.judge([{**made.good(0).job, "inputs": "soft"}])
    assert "`inputs` is `soft`" in verdict["diagnostics"][0]["message"]


# -- blocks ----------------------------------------------------------------------------------------

ROWS = """func.func @k(%x: !pto.ptr<f32>, %o: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %c1024 = arith.constant 1024 : index
  %b64 = pto.get_block_idx
  %b = arith.index_cast %b64 : i64 to index
  %row = FIRST
  %xs = pto.make_tensor_view %x, shape = [%c1024, %c64], strides = [%c64, %c1] : VIEW
  %os = pto.make_tensor_view %o, shape = [%c1024, %c64], strides = [%c64, %c1] : VIEW
  %p = pto.partition_view %xs, offsets = [%row, %c0], sizes = [%c8, %c64] : VIEW -> PART
  %q = pto.partition_view %os, offsets = [%row, %c0], sizes = [%c8, %c64] : VIEW -> PART
  %t = pto.alloc_tile : TILE
  pto.tload ins(%p : PART) outs(%t : TILE)
  pto.tstore ins(%t : TILE) outs(%q : PART)
  return
}""".replace("VIEW", "!pto.tensor_view<?x?xf32>").replace("TILE", "!pto.tile_buf<vec, 8x64xf32>")
ROWS = ROWS.replace("PART", "!pto.partition_tensor_view<8x64xf32>")


@pytest.mark.parametrize(
    ("first", "blocks", "stage"),
    [
        ("arith.muli %b, %c8 : index", 40, "done"),
        ("arith.addi %c0, %c0 : index", 1, "done"),
        ("arith.addi %c0, %c0 : index", 40, "hazards"),  # all at once
        ("arith.muli %b, %c1 : index", 3, "hazards"),  # each over its neighbour's
    ],
)
def test_blocks_that_reach_each_other_s_bytes_are_refused(first, blocks, stage) -> None:
    """Without anything expected, too: nothing orders blocks."""
    args = {"x": "randn:f32:1024x64", "o": "zeros:f32:1024x64"}
    text = ROWS.replace("FIRST", first)
    (verdict,) = ptosim.judge([{"text": text, "target": "a5", "block_num": blocks, "args": args}])
    assert verdict["stage"] == stage
    assert [d["code"] for d in verdict["diagnostics"]] == ["PTO5205"] * (stage == "hazards")
