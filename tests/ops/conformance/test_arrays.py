"""The conformance arrays, straight through the numerics functions.

The arrays come from test generators (`gen_`), a model of the recommended results (`rec_`) and the
public CPU simulator (`cpu_`). Where they are says `tests.ops.conformance.data`.

Where a generator contradicts the rules of the hardware, the element is left out here and the rule
is tested elsewhere. Every such mask is written down in `MASKS` with its reason.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ptosim.machine.numbers.convert import TARGETS, converter, pairs
from ptosim.machine.numbers.cpu_model import cpu_converter
from ptosim.machine.numbers.formats import lookup
from ptosim.machine.numbers.integers import dequantize, quantize_int8
from ptosim.machine.numbers.mx import quantizer
from ptosim.machine.pages import pack_nibbles, unpack_nibbles
from tests.ops.conformance.data import NAMES, arrays, files, stem

pytestmark = pytest.mark.slow

CPU_ONLY = {"f32_to_s8", "bf16_to_s8", "f16_to_e4m3", "bf16_to_e4m3", "f16_to_bf16"}
# The generator arrays for 4-bit decoding widen to f32; the target's conversion is to bf16.
DECODE_FP4 = {"e2m1_to_f32", "e1m2_to_f32"}


def conversion(entry: dict) -> tuple[str, str]:
    src, dst = stem(entry).split("_to_")
    return NAMES.get(src, src), NAMES.get(dst, dst)


def typed(source: np.ndarray, form: str) -> np.ndarray:
    if form.startswith("f4"):
        return unpack_nibbles(source)
    return source if lookup(form).kind == "code" else source.view(lookup(form).dtype)


def expectations(entry: dict) -> list[tuple[str, str, bool]]:
    """(array, mode, saturation) of each expected array; without a mode the default is meant."""
    result = []
    for array in entry["arrays"]:
        if array["role"] != "expected":
            continue
        _, mode, *saturation = array["name"].split("_")
        mode = "rint" if mode == "f32" else mode
        result.append((array["name"], mode, saturation != ["satoff"]))
    return result


def nothing(values: np.ndarray, target: str, saturate: bool) -> np.ndarray:
    return np.zeros(values.shape, dtype=bool)


def positive_infinity_off(values: np.ndarray, target: str, saturate: bool) -> np.ndarray:
    """The generator gives 0; the saturation tests give the low bits of 7FFFFFFF."""
    return np.isposinf(values) & (not saturate)


def infinities_off(values: np.ndarray, target: str, saturate: bool) -> np.ndarray:
    """The generator gives 0; A2/A3 saturates, A5 is unknown."""
    return np.isinf(values) & (not saturate)


def beyond(limit: float) -> Callable[[np.ndarray, str, bool], np.ndarray]:
    """Without saturation A2/A3 saturates all the same; A5 keeps low bits like the generator."""

    def mask(values: np.ndarray, target: str, saturate: bool) -> np.ndarray:
        return (np.abs(np.rint(values)) >= limit) & (not saturate and target == "a2a3")

    return mask


def beyond_2_62(values: np.ndarray, target: str, saturate: bool) -> np.ndarray:
    """The generator overflows its own 64 bits and gives 0, for values in range as well."""
    return (np.abs(values) >= 2.0**62) & (not saturate)


def overflow_of_bf16(values: np.ndarray, target: str, saturate: bool) -> np.ndarray:
    """The generator overflows to infinity where saturation gives 7F7F, from 7F7F8000 on."""
    return np.abs(values).view(np.uint32) >= 0x7F7F8000


def outside_the_search(limit: float) -> Callable[[np.ndarray, str, bool], np.ndarray]:
    """The generator searches the nearest value in f32, where all distances are equal for large
    values; it maps NaN and infinities to anything and drops the sign of a zero."""

    def mask(values: np.ndarray, target: str, saturate: bool) -> np.ndarray:
        wide = values.astype(np.float32)
        negative_zero = (wide == 0) & np.signbit(wide)
        return ~(np.abs(wide) < limit) | negative_zero

    return mask


MASKS = {
    ("f16", "i8"): positive_infinity_off,
    ("f16", "i16"): positive_infinity_off,
    ("f16", "i32"): infinities_off,
    ("f32", "i32"): beyond(2.0**31),
    ("bf16", "i32"): beyond(2.0**31),
    ("f32", "i64"): beyond_2_62,
    ("f32", "bf16"): overflow_of_bf16,
    ("bf16", "f4E2M1FN"): outside_the_search(2.0**27),
    ("bf16", "f4E1M2FN"): outside_the_search(2.0**23),
}


def assert_equal(source: np.ndarray, got: np.ndarray, expected: np.ndarray) -> None:
    """Compare bit patterns; `source` is shown for the first differences."""
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    wrong = np.flatnonzero(got.reshape(-1).view(bits) != expected.reshape(-1).view(bits))
    shown = [
        (source.reshape(-1)[i], got.reshape(-1)[i], expected.reshape(-1)[i]) for i in wrong[:10]
    ]
    assert not wrong.size, f"{wrong.size} differ: {shown}"


def is_nan(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "fV":
        return np.zeros(values.shape, dtype=bool)
    with np.errstate(invalid="ignore"):
        return np.isnan(values)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "entry",
    [e for e in files("tcvt", "gen_data") if stem(e) not in CPU_ONLY | DECODE_FP4],
    ids=stem,
)
def test_tcvt_generators(entry, target):
    src, dst = conversion(entry)
    if (src, dst) not in pairs(target):
        assert "A2A3,A5" not in entry["target"]
        return
    data = arrays(entry["file"])
    values = typed(data["src"], src)
    for name, mode, saturate in expectations(entry):
        got = converter(src, dst, rounding=mode, saturate=saturate, target=target)(values)
        expected = typed(data[name], dst)
        with np.errstate(invalid="ignore"):
            masked = MASKS.get((src, dst), nothing)(values, target, saturate)
        # One NaN is as good as another, but a NaN must stay one, also where the generator lost it.
        nan = is_nan(got)
        both_float = lookup(src).kind == lookup(dst).kind == "float"
        assert np.array_equal(nan, is_nan(values if both_float else expected))
        keep = ~masked & ~nan
        assert_equal(values[keep], got[keep], expected[keep])


@pytest.mark.parametrize("name", sorted(DECODE_FP4))
def test_tcvt_four_bit_decoding(name):
    data = arrays(f"tcvt/{name}.npz")
    src = NAMES[name.split("_")[0]]
    codes = unpack_nibbles(data["src"])
    got = converter(src, "bf16", rounding="rint", saturate=True, target="a5")(codes)
    assert_equal(codes, got.astype(np.float32), data["gen_f32"])


@pytest.mark.parametrize("name", sorted(CPU_ONLY))
def test_pairs_of_the_cpu_simulator_do_not_exist_on_the_targets(name):
    src, dst = (NAMES.get(part, part) for part in name.split("_to_"))
    assert not any((src, dst) in pairs(target) for target in TARGETS)


@pytest.mark.parametrize("entry", files("tcvt", "cpu_sim"), ids=stem)
def test_tcvt_of_the_cpu_simulator(entry):
    src, dst = conversion(entry)
    data = arrays(entry["file"])
    values = typed(data["src"], src)
    for name, mode, _ in expectations(entry):
        # Decoding arrays name no mode; the simulator saturates only on request.
        saturate = name.endswith("saton")
        got = cpu_converter(src, dst, rounding=mode, saturate=saturate)(values)
        expected = data[name]
        if dst.startswith("f4"):
            got = pack_nibbles(got)
        else:
            expected = typed(expected, dst)
        nan = is_nan(got)
        assert np.array_equal(nan, is_nan(expected))
        assert_equal(got[~nan], got[~nan], expected[~nan])


MX_FORMATS = {"MXFP8": "f8E4M3FN", "MXFP4": "f4E2M1FN"}


def mx_result(entry: dict, **switches):
    dst = MX_FORMATS[entry["mode"].split("_")[0]]
    algorithm = entry["mode"].split("_")[-1].lower()
    values = typed(arrays(entry["file"])["src"], entry["src_dtype"])
    quantize = quantizer(entry["src_dtype"], dst, algorithm, axis=entry["grp_axis"], **switches)
    result = quantize(values)
    codes = result.codes if dst == "f8E4M3FN" else pack_nibbles(result.codes)
    return result, codes


@pytest.mark.parametrize("entry", files("tquant", "model"), ids=stem)
def test_mx_recommended_results(entry):
    data = arrays(entry["file"])
    result, codes = mx_result(entry)
    assert_equal(result.exponents, result.exponents, data["rec_exp"])
    assert_equal(codes, codes, data["rec_dst"])


@pytest.mark.parametrize(
    "entry", [e for e in files("tquant", "cpu_sim") if e["mode"].startswith("MX")], ids=stem
)
def test_mx_of_the_cpu_simulator(entry):
    data = arrays(entry["file"])
    result, codes = mx_result(entry, nan_group="ignore", zero_sign="drop")
    assert_equal(result.exponents, result.exponents, data["cpu_exp"])
    assert_equal(codes, codes, data["cpu_dst"])
    # The simulator was run with f32 scratch tiles; the payload of a NaN scale means nothing.
    shift = 0 if result.scales.dtype == np.uint32 else 16
    scales = result.scales.astype(np.uint32) << shift
    number = result.exponents != 255
    assert_equal(scales[number], scales[number], data["cpu_scaling"][number])


@pytest.mark.parametrize("origin", ["gen_data", "cpu_sim"])
@pytest.mark.parametrize(
    "name", [f"{kind}_{part}" for kind in ("sym", "asym") for part in ("ties", "edges")]
)
def test_int8(name, origin):
    check_int8(f"tquant/int8_{name}.npz", name, origin)


@pytest.mark.parametrize("origin", ["gen_data", "cpu_sim"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["sym", "asym"])
def test_int8_of_the_targets_generators(kind, target, origin):
    check_int8(f"tquant/int8_{kind}_gen_{target}.npz", kind, origin)


def check_int8(file: str, name: str, origin: str) -> None:
    data = arrays(file)
    values, scale, offset = (data[key].view(np.float32) for key in ("src", "scale", "offset"))
    shift = offset[:, None] if name.startswith("asym") else None
    got = quantize_int8(values, scale[:, None], shift).codes
    assert_equal(values, got, data["gen_dst" if origin == "gen_data" else "cpu_dst"])


@pytest.mark.parametrize("origin", ["gen_dst", "cpu_dst"])
@pytest.mark.parametrize("name", ["tdequant_s8", "tdequant_s16"])
def test_tdequant(name, origin):
    data = arrays(f"tcvt/{name}.npz")
    scale, offset = (data[key].view(np.float32)[:, None] for key in ("scale", "offset"))
    got = dequantize(data["src"], scale, offset)
    assert_equal(data["src"], got, data[origin])
