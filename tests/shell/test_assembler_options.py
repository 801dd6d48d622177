"""Options of the assembler: some are ptosim's under another name, others change nothing here."""

from __future__ import annotations

import pytest

from ptosim.shell.main import main

PROGRAM = """module {
  func.func @k() attributes {pto.entry} {
    %zero = arith.constant 0 : i64
    %a = pto.alloc_tile addr = %zero : !pto.tile_buf<vec, 16x64xf32>
    pto.tassign %a, %zero : !pto.tile_buf<vec, 16x64xf32>, i64
    return
  }
}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "k.pto"
    path.write_text(PROGRAM)
    return str(path)


def test_targets_and_levels(file, capsys):
    assert main(["check", "--pto-arch=a5", "--pto-level", "level3", file]) == 0
    assert "target a5 · level 3" in capsys.readouterr().out
    assert main(["check", "--pto-arch", "a2", "--pto-level=level2", file]) == 3
    assert "only supported when --pto-level=level3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        "--enable-insert-sync",
        "--enable-graph-sync-solver",
        "--enable-inject-barrier-all-sync",
        "--enable-bufid_sync",
    ],
)
def test_automatic_synchronisation_forbids_tassign(file, option, capsys):
    assert main(["check", option, "--target", "a5", file]) == 3
    assert "to be disabled" in capsys.readouterr().err
    assert main(["check", f"{option}=false", file]) == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--enable-vpto-soft-postupdate", "--pto-backend=vpto", "--emit-vpto"],
        ["--plan-memory-impl", "modern", "--plan-memory-order-by-size"],
        ["--enable-op-fusion=false", "--mlir-print-ir-after=pto-plan-memory"],
        ["--graph-sync-solver-event-id-max=4", "--cann-output-version", "8.5"],
    ],
)
def test_what_changes_only_the_output_is_read(file, options):
    assert main(["check", *options, file]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--plan-memory-impl=new"],
            "invalid --plan-memory-impl='new', expected 'legacy' or 'modern'",
        ),
        (["--pto-backend=llvm"], "invalid --pto-backend='llvm'"),
        (["--enable-insert-sync", "--enable-bufid_sync"], "mutually exclusive"),
        (["--enable-bufid_sync", "--pto-arch=a3"], "--enable-bufid_sync requires --pto-arch=a5"),
        (
            ["--enable-op-fusion", "--target", "a2a3"],
            "--enable-op-fusion=true requires --pto-arch=a5",
        ),
    ],
)
def test_what_the_assembler_refuses(file, options, words, capsys):
    assert main(["check", *options, file]) == 2
    assert words in capsys.readouterr().err
