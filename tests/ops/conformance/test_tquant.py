"""TQUANT through whole programs, against the recorded arrays.

Asserted: the recommended results (`rec_`) in profile `hw`, those of the public CPU simulator
(`cpu_`) in profile `cpu`, for INT8 also the generators' (`gen_`). `gen_` arrays of the microscaling
modes are not: they lose some NaN and treat infinity groups differently. Every exponent layout is
run, and scratch tiles are compared with `tests.oracle.quantisation`.
"""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.ops.conformance.data import arrays, assert_bits, files, stem
from tests.oracle import layouts, quantisation
from tests.support.text import Kernel, Tile

pytestmark = pytest.mark.slow

DTYPES = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}
CPU_ONLY = {"nd_ocp4_f32_edge", "nd_nv4_f32_edge"}  # f32 to MXFP4 exists in the CPU simulator only


class Quantisation:
    """A microscaling case: text, run and raw images of the result tiles."""

    def __init__(self, entry: dict, places: str, profile: str = "hw") -> None:
        kind, *_, rule = entry["mode"].split("_")
        self.src, self.rule, self.axis = entry["src_dtype"], rule.lower(), entry["grp_axis"]
        self.dst = "f8E4M3FN" if kind == "MXFP8" else "f4E2M1FN"
        self.rows, self.cols = entry["shape"]
        self.places = places
        self.kernel = Kernel("a5", profile=profile)
        self.next = 0
        self.images: dict[str, int] = {}
        self._write()

    @property
    def groups(self) -> tuple[int, int]:
        if self.axis == 1:
            return self.rows, self.cols // 32
        return self.rows // 32, self.cols

    def tile(self, name: str, dtype: str, rows: int, cols: int) -> Tile:
        """A tile at the next address, with its bytes as an argument of the same name."""
        bits = {"f32": 32, "f16": 16, "bf16": 16, "f4E2M1FN": 4}.get(dtype, 8)
        size = -(-rows * cols * bits // 8 // 32) * 32
        made = self.kernel.tile(name, dtype, rows, cols, addr=self.next)
        self.images[name] = size
        self.next += size
        return made

    def _exponents(self) -> Tile:
        outer, inner = self.groups
        if self.places == "flat":
            return self.tile("exp", "ui8", 1, -(-outer * inner // 32) * 32)
        if self.places == "interleaved":
            return self.tile("exp", "ui8", outer // 2, 2 * inner)
        if self.places == "rows" and self.axis == 1:
            return self.tile("exp", "ui8", outer, -(-inner // 32) * 32)
        return self.tile("exp", "ui8", outer, inner)

    def _write(self) -> None:
        k, (outer, inner) = self.kernel, self.groups
        src = self.tile("src", self.src, self.rows, self.cols)
        dst = self.tile("dst", self.dst, self.rows, self.cols)
        exp = self._exponents()
        twice = 2 if self.src == "f32" and self.places == "flat" else 1
        max_ = self.tile("max", self.src, 1, outer * inner)
        scaling = self.tile("scaling", self.src, 1, outer * inner * twice)
        k.load("x", src)
        algorithm = {"ocp": "Ocp", "nv": "Nv"}[self.rule] + (
            "MxFp8E4M3" if self.dst == "f8E4M3FN" else "MxFp4E2M1"
        )
        k.op(
            "pto.tquant",
            [src],
            [dst, exp, max_, scaling],
            f"mx_alg = #pto<mx_quant_alg {algorithm}>, grp_axis = {self.axis}, "
            f"interleave = {'true' if self.places == 'interleaved' else 'false'}",
        )
        at = 0
        for name, size in self.images.items():
            raw = k.tile(f"raw_{name}", "ui8", 1, size, addr=at)
            k.store(raw, f"out_{name}")
            at += size

    def run(self, bits: np.ndarray) -> dict[str, np.ndarray]:
        args = {f"out_{n}": np.zeros(size, np.uint8) for n, size in self.images.items()}
        result = self.kernel.run({"x": bits.view(DTYPES[self.src]), **args})
        return {n: result.outputs[f"out_{n}"] for n in self.images}

    def exponent_at(self, outer: int, inner: int) -> int:
        """Byte of an exponent, by the description of the four places."""
        groups = self.groups[1]
        if self.places == "interleaved":
            return (outer // 2) * 2 * groups + 2 * inner + outer % 2
        if self.places == "rows" and self.axis == 1:
            return outer * (-(-groups // 32) * 32) + inner
        return outer * groups + inner

    def exponents(self, image: np.ndarray) -> np.ndarray:
        """The exponents of an image in linear order."""
        outer, inner = self.groups
        index = [[self.exponent_at(o, i) for i in range(inner)] for o in range(outer)]
        return image[np.array(index)]


PLACES = {1: ("flat", "rows"), 0: ("columns", "interleaved")}
RECOMMENDED = [
    pytest.param(entry, places, id=f"{stem(entry)}-{places}")
    for entry in files("tquant", "model")
    for places in PLACES[entry["grp_axis"]]
    if stem(entry) not in CPU_ONLY and not (places == "rows" and entry["shape"][1] % 32)
]


@pytest.mark.parametrize(("entry", "places"), RECOMMENDED)
def test_recommended_results_and_scratch(entry, places):
    expected = arrays(entry["file"])
    case = Quantisation(entry, places)
    images = case.run(expected["src"])
    assert_bits("tquant", images["dst"][: expected["rec_dst"].size], expected["rec_dst"])
    assert_bits("tquant", case.exponents(images["exp"]), expected["rec_exp"])

    maxima = quantisation.maxima(expected["src"], case.src, case.rule, case.axis)
    scales = quantisation.scales(expected["rec_exp"], case.src, case.dst)
    got_max = images["max"].view(maxima.dtype)
    got_scales = images["scaling"].view(scales.dtype)
    size = maxima.size
    if places == "rows" and case.src != "f32":
        # The window of scales of the last row is over the first maxima.
        for start in range(0, maxima.shape[1], 8):
            window = scales[-1, start : start + 8]
            maxima.reshape(-1)[: window.size] = window
    np.testing.assert_array_equal(got_max[:size], maxima.reshape(-1))
    if places == "flat" and case.src == "f32":  # every case is unrolled: scales come twice
        scales = np.repeat(scales.reshape(-1), 2)
    np.testing.assert_array_equal(got_scales[: scales.size], scales.reshape(-1))
    np.testing.assert_array_equal(
        images["src"].view(expected["src"].dtype), expected["src"].reshape(-1)
    )


class OfTheAssembler(Quantisation):
    """The same case by `tquant.mx`, whose maxima and scales are results."""

    def _write(self) -> None:
        k, (outer, inner) = self.kernel, self.groups
        groups, along_columns = outer * inner, self.axis == 0
        pairs = self.dst == "f4E2M1FN"
        src = self.tile("src", self.src, self.rows, self.cols)
        codes = ("!pto.f4E2M1x2", self.cols // 2) if pairs else ("ui8", self.cols)
        dst = self.tile("dst", codes[0], self.rows, codes[1])
        exp = self._valid(self._exponents(), groups)
        results = (outer, inner) if along_columns else (1, -(-groups // 32) * 32)
        room = results if along_columns else (1, -(-2 * groups // 128) * 128)
        max_ = self._valid(self.tile("max", self.src, *results), groups)
        scaling = self._valid(self.tile("scaling", self.src, *room), groups)
        k.load("x", src)
        axis = f", grpAxis = #pto<mx_group_axis axis{self.axis}>"
        inter = ", interleave = true" if self.places == "interleaved" else ""
        k.op(
            "pto.tquant.mx", [src], [dst, exp, max_, scaling],
            f"quant_type = #pto<quant_type MXFP{'4_E2M1' if pairs else '8'}>, "
            f"quantScaleAlg = #pto<quant_scale_alg {self.rule}>{axis}{inter}",
        )  # fmt: skip
        at = 0
        for name, size in self.images.items():
            k.store(k.tile(f"raw_{name}", "ui8", 1, size, addr=at), f"out_{name}")
            at += size

    def _valid(self, tile: Tile, groups: int) -> Tile:
        """The tile with the valid extents of its results."""
        outer, inner = self.groups
        if self.axis == 0 or tile.rows > 1:
            extents = tile.valid if self.axis == 0 else (outer, inner)
        else:
            extents = (1, groups)
        changed = replace(tile, name=f"{tile.name}_part", v_row=extents[0], v_col=extents[1])
        at = self.next - self.images[tile.name]
        self.kernel.line(
            f"%{changed.name} = pto.alloc_tile addr = {self.kernel.const(at, 'i64')} : {changed.type}"
        )
        return changed


TAKEN = [
    p
    for p in RECOMMENDED
    for (entry, places) in (p.values,)
    if not (entry["src_dtype"] == "f32" and places == "interleaved")
    and not (entry["src_dtype"] != "f32" and places == "rows")
    and not (entry["src_dtype"] != "f32" and places == "flat" and entry["mode"].endswith("NV"))
]


@pytest.mark.parametrize(("entry", "places"), TAKEN)
def test_recommended_results_of_the_assembler(entry, places):
    """Codes, exponents, maxima and scales of the groups, in every form that the assembler takes."""
    expected = arrays(entry["file"])
    case = OfTheAssembler(entry, places)
    images = case.run(expected["src"])
    assert_bits("tquant", images["dst"][: expected["rec_dst"].size], expected["rec_dst"])
    assert_bits("tquant", case.exponents(images["exp"]), expected["rec_exp"])
    maxima = quantisation.maxima(expected["src"], case.src, case.rule, case.axis)
    scales = quantisation.scales(expected["rec_exp"], case.src, case.dst)
    for name, values in (("max", maxima), ("scaling", scales)):
        got = images[name].view(values.dtype)[: values.size]
        np.testing.assert_array_equal(got, values.reshape(-1), err_msg=name)


@pytest.mark.parametrize("name", sorted(CPU_ONLY))
def test_f32_to_mxfp4_is_refused(name):
    entry = next(e for e in files("tquant") if stem(e) == name)
    case = Quantisation(entry, "flat")
    with pytest.raises(ptosim.UnsupportedError, match="f32 to MXFP4"):
        case.run(arrays(entry["file"])["src"])


CPU = [e for e in files("tquant", "cpu_sim") if e["mode"].startswith("MX")]


@pytest.mark.parametrize("entry", CPU, ids=stem)
def test_cpu_simulator(entry):
    expected = arrays(entry["file"])
    # The simulator takes an exponent tile of one row for a group row that overruns it.
    case = Quantisation(entry, "columns", "cpu")
    images = case.run(expected["src"])
    assert_bits("tquant", images["dst"][: expected["cpu_dst"].size], expected["cpu_dst"])
    assert_bits("tquant", case.exponents(images["exp"]), expected["cpu_exp"])
    # Its scratch tiles were f32; here they have the type of the source and hold upper halves.
    wide = case.src == "f32"
    scales = images["scaling"].view(np.uint32 if wide else np.uint16).astype(np.uint32)
    number = expected["cpu_exp"] != 255
    assert_bits("tquant", scales << (0 if wide else 16), expected["cpu_scaling"], number)
    if case.src == "f16":
        return
    maxima = images["max"].view(np.uint32 if wide else np.uint16).astype(np.uint32)
    halved = np.uint32(0xFFFF0000 if stem(entry) == "nd_ocp4_f32_edge" else 0xFFFFFFFF)
    assert_bits("tquant", maxima << (0 if wide else 16), expected["cpu_max"] & halved, number)


# -- INT8 ------------------------------------------------------------------------------------------

# A5 reads flat values, so a row of copies is a form of A2/A3 only.
INT8_FORMS = {"a5": ("column", "scratch"), "a2a3": ("column", "scratch", "blocks")}
TARGETS = {"A5": "a5", "A2A3": "a2a3"}
INT8 = [
    pytest.param(entry, TARGETS[word], form, id=f"{stem(entry)}-{TARGETS[word]}-{form}")
    for entry in files("tquant", "gen_data")
    if entry["mode"].startswith("INT8")
    for word in entry["target"].split(",")
    for form in INT8_FORMS[TARGETS[word]]
]


def int8_kernel(entry: dict, target: str, form: str, profile: str = "hw") -> Kernel:
    """scale (and offset) as a column, as a column beside a scratch tile, or as one 32-byte block of
    copies for each row. All tiles are where the test can look at their bytes."""
    rows, cols = entry["shape"]
    size = rows * cols * 4
    asym = entry["mode"] == "INT8_ASYM"
    date = (
        "2026-04" if target == "a2a3" and form == "blocks" else "2026-08"
    )  # it refuses rows of fp
    k = Kernel(target, profile=profile, compat=date)
    src = k.tile("src", "f32", rows, cols, addr=0)
    tmp = k.tile("tmp", "f32", rows, cols, addr=size)
    dst = k.tile("dst", "ui8" if asym else "i8", rows, cols, addr=2 * size)
    shape = {"layout": "nd", "cols": 8} if form == "blocks" else {"layout": "dn", "cols": 1}
    parameters = []
    for number, name in enumerate(["scale", "offset"][: 2 if asym else 1]):
        at = 2 * size + rows * cols + number * rows * 32
        tile = k.tile(f"{name}_tile", "f32", rows, shape["cols"], layout=shape["layout"], addr=at)
        k.load(name, tile)
        parameters.append(tile)
    k.load("x", src)
    outs = [dst, tmp] if form == "scratch" else [dst]
    k.op("pto.tquant", [src, *parameters], outs, f"quant_type = #pto<quant_type {entry['mode']}>")
    k.store(dst, "y")
    k.store(k.tile("raw_src", "ui8", 1, size, addr=0), "src_after")
    k.store(k.tile("raw_tmp", "ui8", 1, size, addr=size), "tmp_after")
    return k


def int8_args(entry: dict, form: str) -> dict[str, np.ndarray]:
    given = arrays(entry["file"])
    rows, cols = entry["shape"]
    asym = entry["mode"] == "INT8_ASYM"
    args = {"x": given["src"].view(np.float32)}
    for name in ["scale", "offset"][: 2 if asym else 1]:
        values = given[name].view(np.float32)
        args[name] = np.repeat(values, 8) if form == "blocks" else values
    args["y"] = np.zeros((rows, cols), np.uint8 if asym else np.int8)
    args |= {n: np.zeros(rows * cols * 4, np.uint8) for n in ("src_after", "tmp_after")}
    return args


@pytest.mark.parametrize(("entry", "target", "form"), INT8)
def test_int8(entry, target, form):
    given = arrays(entry["file"])
    args = int8_args(entry, form)
    outputs = int8_kernel(entry, target, form).run(args).outputs
    assert_bits("tquant", outputs["y"], given["gen_dst"])

    rows, cols = entry["shape"]
    source = given["src"].reshape(-1)
    if target == "a5":
        np.testing.assert_array_equal(outputs["src_after"], source.view(np.uint8))
        return
    offset = given["offset"].view(np.float32) if "offset" in args else None
    scale = given["scale"].view(np.float32)
    values = given["src"].view(np.float32)
    products, integers, half = quantisation.int8_stages(values, scale, offset)
    image = quantisation.clobbered_source(products, half, source, cols)
    np.testing.assert_array_equal(outputs["src_after"], image)
    if form == "scratch":
        got = outputs["tmp_after"].view(np.int32)
        for r in range(rows):
            for c in range(0, cols, 7):
                assert got[layouts.tile_offset("nd", (rows, cols), (r, c), 32)] == integers[r, c]


@pytest.mark.parametrize(
    "entry", [e for e in files("tquant", "cpu_sim") if e["mode"].startswith("INT8")], ids=stem
)
def test_int8_of_the_cpu_simulator(entry):
    target = TARGETS[entry["target"].split(",")[0]]
    outputs = int8_kernel(entry, target, "column", "cpu").run(int8_args(entry, "column")).outputs
    assert_bits("tquant", outputs["y"], arrays(entry["file"])["cpu_dst"])
