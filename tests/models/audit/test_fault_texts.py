"""`ptosim quant audit` of programs and of texts with quantised types: planted faults are found at
their line, and a sound program has none."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.source import Source
from ptosim.models.audit.program import audit_program, audit_run
from ptosim.models.audit.texts import find_in_text
from ptosim.shell.main import main
from tests.models.audit.test_sums import PLANTED
from tests.support.paths import PROGRAMS

WEIGHTS = "!quant.uniform<i8<-127:127>:f32:0, {0.1, 0.2, 0.1, 0.3}>"
SOUND = f"""func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  %d = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.5:3>> to tensor<4xf32>
  %w = quant.scast %c : tensor<4xi8> to tensor<4x{WEIGHTS}>
  return %d : tensor<4xf32>
}}
"""

TEXTS = {
    "another scale": ("Q and DQ disagree", 3, {3: ("0.5:3", "0.25:3")}),
    "another zero point": ("Q and DQ disagree", 3, {3: ("0.5:3", "0.5:4")}),
    "zero point beyond u8": (
        "zero point outside the codes", 2, {2: ("i8:f32, 0.5:3", "u8:f32, 2.0:300")}),
    "zero point beyond i8": ("zero point outside the codes", 3, {3: ("0.5:3", "0.5:-129")}),
    "scale of zero": ("type", 2, {2: ("0.5:3", "0.0:3")}),
    "scale below zero": ("type", 3, {3: ("0.5:3", "-0.5:3")}),
    "subnormal": ("scale subnormal", 2, {2: ("0.5:3", "1.0e-40:3")}),
    "subnormal channel": ("scale subnormal", 4, {4: ("0.2", "1.0e-40")}),
    "channel large": ("channel out of line", 4, {4: ("0.2", "20.0")}),
    "channel small": ("channel out of line", 4, {4: ("0.2", "0.0001")}),
    "symmetric with a zero point": ("zero point of symmetric weights", 4, {4: ("0.2", "0.2:5")}),
    "the first channel of them": ("zero point of symmetric weights", 4, {4: ("{0.1", "{0.1:-3")}),
    "twice": ("quantised twice", 4, {4: (
        "%w = quant.scast %c : tensor<4xi8> to", "%w = quant.qcast %d : tensor<4xf32> to")}),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_text(name):
    kind, line, changes = TEXTS[name]
    lines = SOUND.splitlines()
    for number, (old, new) in changes.items():
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, 1)
    found = find_in_text(Source("f.mlir", "\n".join(lines)))
    assert [f.where for f in found if f.kind == kind and f"line {line}" in f.where]


def test_a_sound_text_has_none():
    assert find_in_text(Source("f.mlir", SOUND)) == []


def product(op: str, x: str, w: str, bias: str = "i32:f32, 0.125") -> str:
    return (
        f'%y = "{op}"(%x, %w, %b) : (tensor<8x64x!quant.uniform<{x}>>, '
        f"tensor<64x4x!quant.uniform<{w}>>, tensor<4x!quant.uniform<{bias}>>) -> tensor<8x4xf32>"
    )


X, W = "i8:f32, 0.5:3", "i8<-127:127>:f32:1, {0.25, 0.5, 0.25, 1.0}"
BLOCKS = "i8:f32:{0:32, 1:4}, {{0.25}, {0.5}}"
PRODUCTS = {
    "sound": ("", ("tosa.matmul", X, "i8:f32, 0.25")),
    "sound channels": ("", ("tosa.conv2d", X, W, "i32:f32:0, {0.125, 0.25, 0.125, 0.5}")),
    "sound blocks": ("", ("tosa.matmul", X, BLOCKS)),
    "no product": ("", ("tosa.add", X, "i8:f32, 0.5")),
    "ten times": ("bias scale", ("tosa.matmul", X, "i8:f32, 0.25", "i32:f32, 1.25")),
    "one channel": (
        "bias scale", ("tosa.conv2d", X, W, "i32:f32:0, {0.125, 0.25, 0.25, 0.5}")),
    "of the weights alone": ("bias scale", ("tosa.fully_connected", X, W, "i32:f32, 0.25")),
    "scales of the rows": (
        "wrong axis", ("tosa.matmul", X, f"i8:f32:0, {{{', '.join(['0.25'] * 64)}}}")),
    "blocks of the columns": (
        "wrong axis", ("linalg.matmul", X, "i8:f32:{1:2}, {{0.25, 0.5}}")),
    "blocks of the first operand": (
        "wrong axis", ("linalg.matmul", "i8:f32:{0:4}, {{0.25}, {0.5}}", "i8:f32, 0.25")),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_types_of_a_product(name):
    """The scale of a 32-bit bias is that of the first operand times that of the second; of matrices
    scales go along what is left of them, and blocks along what is summed over."""
    kind, parts = PRODUCTS[name]
    found = find_in_text(Source("f.mlir", "func.func @f() {\n" + product(*parts) + "\n}\n"))
    assert [(f.kind, f.where.partition(",")[0]) for f in found] == (
        [(kind, "line 2")] if kind else []
    )
    assert name != "one channel" or found[0].where == "line 2, channel 2"


def audited(change, name: str = "int8_sym"):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((128, 256)).astype(np.float32)
    args = {"x": x, "s": (127 / np.abs(x).max(axis=1, keepdims=True)).astype(np.float32)}
    change(args)
    program = ptosim.load(PROGRAMS / "quant" / f"{name}.pto", target="a5")
    steps = audit_program(program, args | {"q": np.zeros((128, 256), np.int8)})
    return [f for s in steps for f in s.faults]


def times(rows, factor: float):
    def change(args: dict[str, np.ndarray]) -> None:
        args["s"][rows] *= factor

    return change


def test_a_sound_program_has_none():
    assert audited(lambda _: None) == []


STEPS = {
    "saturated": ("values saturated", times(slice(None), 4.0)),
    "saturated more": ("values saturated", times(slice(None), 30.0)),
    "unused": ("codes unused", times(slice(None), 1 / 16)),
    "hardly used": ("codes unused", times(slice(None), 1 / 60)),
    "one row": ("channel out of line", times(5, 20.0)),
    "another row": ("channel out of line", times(100, 1 / 20)),
    "negative": ("scale negative", times(3, -1.0)),
    "all negative": ("scale negative", times(slice(None), -1.0)),
    "no reciprocal": ("scale zero or infinite", times(7, 0.0)),
    "not a number": ("scale NaN", times(40, float("nan"))),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_a_program(name):
    kind, change = STEPS[name]
    found = [f for f in audited(change) if f.kind == kind]
    assert found
    assert all("tquant" in f.where and f.where.startswith("line ") for f in found)
    # Codes of a negative scale stand for the same numbers: it costs nothing until others read it.
    least = -1 if kind == "scale negative" else 3
    assert any(f.cost is not None and f.cost > least for f in found)


def test_the_command_reads_a_text(tmp_path, capsys):
    path = tmp_path / "f.mlir"
    path.write_text(SOUND.replace("0.5:3>> to tensor<4xf32>\n", "0.25:3>> to tensor<4xf32>\n"))
    assert main(["quant", "audit", str(path)]) == 0
    out = capsys.readouterr().out
    assert "1 fault found" in out
    assert "Q and DQ disagree: line 3: %d" in out


# -- pairs of steps in a program -------------------------------------------------------------------

TILE, ROWS = "!pto.tile_buf<vec, 8x32x{}>", "!pto.tile_buf<vec, 8x1xf32, blayout=col_major>"
F32, I8 = TILE.format("f32"), TILE.format("i8")


def pair(more: str = "") -> str:
    """x -> TQUANT by %s -> TDEQUANT by %d and %z -> y, on 8x32 numbers."""
    lines = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 8, 32)]
    for name, columns in (("x", 32), ("y", 32), ("s", 1), ("d", 1), ("z", 1)):
        strides = "[%c32, %c1]" if columns > 1 else "[%c1, %c8]"
        tile = F32 if columns > 1 else ROWS
        view, part = (
            f"!pto.{w}<8x{columns}xf32>" for w in ("tensor_view", "partition_tensor_view")
        )
        lines += [
            f"%v{name} = pto.make_tensor_view %{name}, shape = [%c8, %c{columns}], "
            f"strides = {strides} : {view}",
            f"%p{name} = pto.partition_view %v{name}, offsets = [%c0, %c0], "
            f"sizes = [%c8, %c{columns}] : {view} -> {part}",
            f"%t{name} = pto.alloc_tile : {tile}",
        ]
        if name != "y":
            lines.append(f"pto.tload ins(%p{name} : {part}) outs(%t{name} : {tile})")
    lines += [f"%t{n} = pto.alloc_tile : {I8}" for n in "qr"]
    lines += [
        tquant("x", "q"),
        f"pto.tdequant ins(%tq, %td, %tz : {I8}, {ROWS}, {ROWS}) outs(%ty : {F32})", more,
        f"pto.tstore ins(%ty : {F32}) outs(%py : !pto.partition_tensor_view<8x32xf32>)", "return",
    ]  # fmt: skip
    args = ", ".join(f"%{n}: !pto.ptr<f32>" for n in "xsdzy")
    head = 'module attributes {pto.target_arch = "a5"} {\nfunc.func @k(' + args + ") {\n"
    return head + "\n".join(filter(None, lines)) + "\n}\n}\n"


def tquant(source: str, made: str) -> str:
    return (
        f"pto.tquant ins(%t{source}, %ts : {F32}, {ROWS}) outs(%t{made} : {I8}) "
        "{quant_type = #pto<quant_type INT8_SYM>}"
    )


def paired(text: str, **changes):
    x = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32)
    factor = (127 / np.abs(x).max(1, keepdims=True)).astype(np.float32)
    args = {"x": x, "s": factor, "d": 1 / factor, "z": np.zeros((8, 1)), "y": np.zeros((8, 32))}
    args |= {name: change(args[name], factor) for name, change in changes.items()}
    given = {name: a.astype(np.float32) for name, a in args.items()}
    return audit_run(ptosim.load(text), given)[1]


def test_a_pair_that_agrees_has_none():
    assert paired(pair()) == []


ROW_3 = np.where(np.arange(8) == 3, 2, 1)[:, None]


@pytest.mark.parametrize(
    "changes",
    [
        {"d": lambda d, _: d * 1.5}, {"d": lambda d, _: d * ROW_3}, {"d": lambda _, f: f},
        {"d": lambda d, _: -d}, {"d": lambda d, _: d * np.nan}, {"z": lambda z, _: z + 4},
    ],
)  # fmt: skip
def test_codes_are_read_with_the_parameters_they_were_made_with(changes):
    """The cost is what the numbers that come back lose against the right parameters."""
    text = pair()
    line = next(i for i, each in enumerate(text.splitlines(), 1) if "tdequant" in each)
    (fault,) = paired(text, **changes)
    assert (fault.kind, fault.where) == ("Q and DQ disagree", f"line {line}: tdequant")
    assert fault.cost is not None
    assert fault.cost > 20


def test_numbers_of_codes_are_not_quantised_again():
    text = pair(tquant("y", "r"))
    line = len(text.splitlines()[:-4])
    (fault,) = paired(text)
    assert (fault.kind, fault.where) == ("quantised twice", f"line {line}: tquant")


def test_what_the_run_finds_in_quantising_is_a_fault_too():
    """NaN becomes the code 0, which no code shows."""
    (fault,) = paired(pair(), x=lambda x, _: np.where(x == x.max(), np.nan, x))
    assert fault.kind == "NaN or infinity becomes a code"
    assert fault.where.startswith("line ")
    assert "ptosim why" in fault.cure


def test_names_of_types_are_read_as_the_types():
    """Of a text that names its types, the value is read by another one than it was made with."""
    text = """!made = !quant.uniform<i8:f32, 0.5:3>
!read = !quant.uniform<i8:f32, 0.25:3>  // half of it
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!made>
  %d = quant.dcast %q : tensor<4x!read> to tensor<4xf32>
  return %d : tensor<4xf32>
}
"""
    (found,) = find_in_text(Source("f.mlir", text))
    assert (found.kind, found.where) == ("Q and DQ disagree", "line 5: %d")
    assert find_in_text(Source("f.mlir", text.replace("x!read", "x!made"))) == []


def test_fifteen_kinds_are_planted():
    """In steps, pairs, products and groups of programs, and in texts of types: each at its line in
    the tests above, of sums and of groups."""
    planted = {kind for kind, *_ in (*TEXTS.values(), *STEPS.values(), *PLANTED.values())}
    planted |= {kind for kind, _ in PRODUCTS.values() if kind}
    planted |= {"NaN or infinity becomes a code"}
    kinds = {k for k in planted - {"type"} if not k.startswith("requantisation multiplier ")}
    assert sorted(kinds) == [
        "NaN or infinity becomes a code", "Q and DQ disagree", "accumulator overflow", "bias scale",
        "channel out of line", "codes unused", "quantised twice", "scale NaN", "scale negative",
        "scale subnormal", "scale zero or infinite", "values saturated", "wrong axis",
        "zero point of symmetric weights", "zero point outside the codes",
    ]  # fmt: skip
    assert len(planted - kinds) == 7  # a type, and multipliers that are out of range in six ways
