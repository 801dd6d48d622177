"""What a chain computes, what it finds between launches, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.launch.chain.ledger import Extents
from ptosim.shell.main import main
from tests.launch.programs.expected import PROGRAMS

KERNELS = """
!V = !pto.tensor_view<16x64xf32>
!P = !pto.partition_tensor_view<16x64xf32>
!T = !pto.tile_buf<vec, 16x64xf32>
module {
  func.func @scale(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %by: f32) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : !V
    %vy = pto.make_tensor_view %y, shape = [%c16, %c64], strides = [%c64, %c1] : !V
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c16, %c64] : !V -> !P
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c16, %c64] : !V -> !P
    %t = pto.alloc_tile : !T
    pto.tload ins(%px : !P) outs(%t : !T)
    pto.tmuls ins(%t, %by : !T, f32) outs(%t : !T)
    pto.tstore ins(%t : !T) outs(%py : !P)
    return
  }
}
"""
HEAD = """
targets = ["a2a3", "a5"]
[kernels]
scale = { file = "scale.pto", sync = "auto" }
[buffers]
a = "randn:f32:4x16x64:7"
b = "empty:f32:16x64"
c = "empty:f32:16x64"
"""
X = np.random.default_rng(7).standard_normal((4, 16, 64)).astype(np.float32)


def launch(x: str, y: str, by: str = "2.0", more: str = "") -> str:
    return f'[[launch]]\nkernel = "scale"\nargs = {{ x = "{x}", y = "{y}", by = {by} }}\n{more}\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scale.pto").write_text(KERNELS, encoding="utf-8")
    return tmp_path


def chain_of(folder: Path, *launches: str, head: str = HEAD) -> str:
    path = folder / "chain.toml"
    path.write_text(head + "".join(launches), encoding="utf-8")
    return str(path)


def codes(result: ptosim.ChainResult) -> list[str]:
    return [d.code for d in result.findings if d.severity.word != "note"]


def test_launches_follow_each_other_on_the_same_buffers(folder):
    path = chain_of(folder, launch("a[1]", "b"), launch("b", "c", "-0.5"), launch("c", "c"))
    result = ptosim.run_chain(path, target="a5")
    np.testing.assert_array_equal(result.buffers["b"], 2 * X[1])
    np.testing.assert_array_equal(result.buffers["c"], -2 * X[1])
    assert codes(result) == []
    assert result.launches == 3
    assert list(result.uses["c"].writers) == ["scale"]


def test_windows_and_scalars_follow_the_counters(folder):
    head = HEAD.replace("targets", 'repeat = 2\ncounter = "n"\ntargets')
    one = launch("a[n * 2 + i]", "a[n * 2 + i]", '"10 * n + i"', "repeat = 2")
    with pytest.raises(ptosim.DescriptionError, match="PTO6123"):  # 'by' is f32, not a whole number
        ptosim.run_chain(chain_of(folder, one, head=head.replace("f32:4x16", "i32:4x16")))
    result = ptosim.run_chain(chain_of(folder, one, head=head))
    factors = np.array([0, 1, 10, 11], np.float32)[:, None, None]
    np.testing.assert_array_equal(result.buffers["a"], X * factors)
    assert [(s.name, s.launches) for s in result.stages] == [("scale", 4)]


def test_a_buffer_that_is_read_before_it_is_written(folder):
    result = ptosim.run_chain(chain_of(folder, launch("b", "c"), launch("a[0]", "b")))
    assert [c for c in codes(result) if c.startswith("PTO612")] == ["PTO6120"]
    found = next(d for d in result.findings if d.code == "PTO6120")
    assert "`b`" in found.message
    assert [s.line for s in found.spans] == [11, 7]


def test_a_buffer_that_the_caller_fills_has_content(folder):
    path = chain_of(folder, launch("b", "c"), launch("a[0]", "b"))
    result = ptosim.run_chain(path, {"b": X[2]})
    assert codes(result) == []
    np.testing.assert_array_equal(result.buffers["c"], 2 * X[2])


def test_a_result_that_nobody_reads_before_the_next_writer(folder):
    first, second = (
        launch("a[0]", "b", more='name = "one"'),
        launch("a[1]", "b", more='name = "two"'),
    )
    between = launch("b", "c")
    result = ptosim.run_chain(chain_of(folder, first, second, between))
    assert codes(result) == ["PTO6121"]
    assert "`two`" in next(d for d in result.findings if d.code == "PTO6121").message
    assert codes(ptosim.run_chain(chain_of(folder, first, between, second))) == []


def test_part_of_a_result_counts_by_its_bytes(folder):
    head = HEAD.replace('b = "empty:f32:16x64"', 'b = "empty:f32:32x64"')
    path = chain_of(folder, launch("a[0]", "b[0:16]"), launch("b[8:24]", "c"), head=head)
    result = ptosim.run_chain(path)
    (found,) = (d for d in result.findings if d.code == "PTO6120")
    assert "[0x1000, 0x1800)" in found.message  # rows 16 to 23 of 256 bytes


def test_a_buffer_that_no_launch_takes(folder):
    assert codes(ptosim.run_chain(chain_of(folder, launch("a[0]", "b")))) == ["PTO6124"]


# -- streams ---------------------------------------------------------------------------------------

SECOND = 'stream = "second"'


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((SECOND,), ["PTO6125"]),
        ((f'{SECOND}\nafter = ["scale"]',), []),
        (("",), []),  # one stream
    ],
)
def test_a_launch_of_another_stream_waits_or_races(folder, more, told):
    """Nothing orders two streams but a wait."""
    chain = chain_of(folder, launch("a[0]", "b"), launch("b", "c", more=more[0]))
    result = ptosim.run_chain(chain)
    assert codes(result) == told
    if told:
        (found,) = result.findings
        assert found.severity.word == "error"
        assert "reads what `scale` writes in buffer `b`" in found.message
        assert [label.text for label in found.labels] == [
            "in stream `second`", "in no stream that has a name",
        ]  # fmt: skip


def test_a_wait_is_one_for_all_that_came_before(folder):
    """The third launch waits for the second, which follows the first."""
    first = launch("a[0]", "b", more='name = "one"')
    second = launch("a[1]", "c", more='name = "two"')
    third = launch("b", "d", more=f'{SECOND}\nafter = ["two"]')
    head = HEAD + 'd = "empty:f32:16x64"\n'
    assert codes(ptosim.run_chain(chain_of(folder, first, second, third, head=head))) == []
    third = launch("c", "d", more=f'{SECOND}\nafter = ["one"]')
    assert codes(ptosim.run_chain(chain_of(folder, first, second, third, head=head))) == ["PTO6125"]


def test_what_another_stream_reads_is_not_written_over(folder):
    first = launch("a[0]", "b", more=SECOND)
    head = HEAD.replace('c = "empty:f32:16x64"', "")
    over, beside = launch("a[1]", "a[0]"), launch("a[1]", "a[2]")
    assert codes(ptosim.run_chain(chain_of(folder, first, over, head=head))) == ["PTO6125"]
    assert codes(ptosim.run_chain(chain_of(folder, first, beside, head=head))) == []


def test_atomic_additions_of_two_streams_come_in_any_order(folder):
    adding = "{atomicType = #pto<atomic_type atomic_add>}"
    text = KERNELS.replace("outs(%py : !P)", f"outs(%py : !P) {adding}")
    (folder / "scale.pto").write_text(text, encoding="utf-8")
    head = HEAD.replace("empty", "zeros").replace('c = "zeros:f32:16x64"', "")
    both = launch("a[0]", "b"), launch("a[1]", "b", more=SECOND)
    assert codes(ptosim.run_chain(chain_of(folder, *both, head=head))) == []
    (folder / "scale.pto").write_text(KERNELS, encoding="utf-8")
    assert "PTO6125" in codes(ptosim.run_chain(chain_of(folder, *both, head=head)))


def test_a_wait_for_a_launch_that_is_not_there(folder, capsys):
    chain = chain_of(folder, launch("a[0]", "b"), launch("b", "c", more='after = ["scald"]'))
    assert main(["run", "--chain", chain]) == 2
    told = capsys.readouterr().err
    assert "PTO1084" in told
    assert "there is no launch `scald`" in told
    assert "scale" in told


def test_without_sanitizers_nothing_is_told(folder):
    result = ptosim.run_chain(chain_of(folder, launch("b", "c")), sanitize="none")
    assert codes(result) == []
    assert result.uses == {}


def test_arrays_in_the_place_of_the_files(folder):
    mine = np.ones((4, 16, 64), np.float32)
    path = chain_of(
        folder, launch("a[0]", "b"), launch("b", "c"), '[expect]\nb = "zeros:f32:16x64"\n'
    )
    assert not ptosim.run_chain(path).passed
    result = ptosim.run_chain(path, {"a": mine}, expect={"c": np.full((16, 64), 4, np.float32)})
    assert result.passed
    assert [c.name for c in result.comparisons] == ["c"]
    assert (mine == 1).all()
    with pytest.raises(ptosim.UsageError, match="no buffer `d`"):
        ptosim.run_chain(path, {"d": mine})


def test_values_after_a_stage(folder):
    np.save(folder / "twice.npy", 2 * X[0])
    checked = launch("a[0]", "b", more='expect = { b = "twice.npy" }')
    path = chain_of(folder, checked, launch("b", "b", "3.0"))
    result = ptosim.run_chain(path)
    (comparison,) = result.stages[0].comparisons
    assert comparison.passed
    np.testing.assert_array_equal(result.buffers["b"], 6 * X[0])


def test_a_launch_that_stops_says_which_one_it_is(folder):
    text = KERNELS.replace("    pto.tload", "    pto.trap\n    pto.tload")
    (folder / "scale.pto").write_text(text, encoding="utf-8")
    with pytest.raises(ptosim.Trap) as raised:
        ptosim.run_chain(chain_of(folder, launch("a[0]", "b", more='name = "beyond"')))
    assert any("launch 1 of 1, `beyond`" in n for d in raised.value.diagnostics for n in d.notes)


def test_times_are_those_of_the_launches_alone(folder):
    path = chain_of(folder, launch("a[0]", "b"), launch("b", "c"))
    program = ptosim.load(folder / "scale.pto", target="a2a3", sync="auto")
    alone = program.run({"x": X[0], "y": X[1], "by": 2.0})
    result = ptosim.run_chain(path, target="a2a3")
    assert [s.cycles for s in result.stages] == [alone.cycles, alone.cycles]
    assert result.cycles == sum(s.cycles or 0 for s in result.stages)
    assert result.microseconds == pytest.approx(2 * alone.cost.microseconds)
    assert result.confidence == alone.cost.confidence
    assert ptosim.run_chain(path, timing=False).cycles is None


def test_kernels_are_loaded_once(folder, monkeypatch):
    from ptosim.launch import compare

    loaded = []
    whole = compare.Choices.program
    monkeypatch.setattr(compare.Choices, "program", lambda c: loaded.append(c.file) or whole(c))
    head = HEAD.replace("targets", "repeat = 9\ntargets")
    ptosim.run_chain(chain_of(folder, launch("a[0]", "b"), launch("b", "c"), head=head))
    assert len(loaded) == 1


def test_memory_of_large_buffers_is_what_is_touched(folder):
    """64 MiB of zeros, of which one launch touches 4 KiB: the array of the buffer is worked in."""
    head = HEAD.replace('b = "empty:f32:16x64"', 'b = "zeros:f32:16384x16x64"')
    chain = ptosim.load_chain(chain_of(folder, launch("a[0]", "b[9999]"), head=head))
    held = chain.make_buffers()
    (bound,) = chain.bind(held)
    assert np.shares_memory(bound.args["y"], held["b"])
    result = ptosim.run_chain(chain)
    np.testing.assert_array_equal(result.buffers["b"][9999], 2 * X[0])


# -- the command -----------------------------------------------------------------------------------


def test_the_report_fits_80_columns(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = chain_of(folder, launch("a[0]", "b"), launch("b", "c"))
    assert main(["run", "--chain", path, "--expect", f"c={folder / 'c.npy'}"]) == 2
    np.save(folder / "c.npy", 4 * X[0])
    assert main(["run", "--chain", path, "--expect", f"c={folder / 'c.npy'}"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith("ptosim ")
    assert "chain chain · target a2a3, a5 · profile hw" in lines[0]
    assert "confidence of the cycles" in lines[1]
    assert max(map(len, lines)) <= 80
    assert "in all" in out


def test_json_and_files(folder, capsys):
    path = chain_of(folder, launch("a[0]", "b"), launch("b", "c"))
    words = ["--out", f"c={folder / 'out.npy'}", "--format", "json", "--target", "a5"]
    assert main(["run", "--chain", path, *words]) == 0
    (target,) = json.loads(capsys.readouterr().out)["targets"]
    assert target["buffers"]["b"]["written_by"] == ["scale"]
    assert target["stages"][0]["cycles"] > 0
    np.testing.assert_array_equal(np.load(folder / "out.npy"), 4 * X[0])


def test_values_that_differ_are_exit_code_1(folder, capsys):
    path = chain_of(
        folder, launch("a[0]", "b"), launch("b", "c"), '[expect]\nb = "zeros:f32:16x64"\n'
    )
    assert main(["run", "--chain", path]) == 1
    assert "DIFFERS" in capsys.readouterr().out
    assert main(["run", "--chain", path, "-q"]) == 1
    assert (
        "failed: b differs in 1,024 of 1,024 elements, first at [0, 0]" in capsys.readouterr().err
    )


# -- shipped chains --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("mlp", "a2a3"),
        ("mlp", "a5"),
        pytest.param("decode_layer", "a2a3", marks=pytest.mark.deep),
        pytest.param("decode_layer", "a5", marks=pytest.mark.slow),
    ],
)
def test_shipped_chains(name, target):
    result = ptosim.run_chain(PROGRAMS / "model" / f"{name}.toml", target=target)
    assert result.passed
    assert result.findings == [d for d in result.findings if d.severity.word == "note"]
    assert result.launches == {"mlp": 5, "decode_layer": 120}[name]
    assert result.cycles


def test_intervals():
    extents = Extents(100, "a")
    extents.set(10, 20, "b")
    extents.set(15, 30, "c")
    extents.set(0, 5, "d")
    extents.set(90, 100, "e")
    assert list(extents.within(0, 100)) == [
        (0, 5, "d"), (5, 10, "a"), (10, 15, "b"), (15, 30, "c"), (30, 90, "a"), (90, 100, "e"),
    ]  # fmt: skip
    assert list(extents.within(12, 16)) == [(12, 15, "b"), (15, 16, "c")]
    assert list(extents.within(7, 7)) == []
