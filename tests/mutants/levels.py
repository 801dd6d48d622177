"""Programs of every level with their bytes written down: tiles with flags and with tokens, raw
pointers and vector regions, logical vectors, signals between cores, FIFOs, signals between ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.mutants.model import (
    Bytes,
    Line,
    Model,
    Part,
    bursts,
    flag,
    ordered,
    span,
    token,
)

CONSTANTS = "\n".join(
    f"%{name} = arith.constant {value} : index"
    for name, value in (
        ("c0", 0), ("c1", 1), ("c4", 4), ("c8", 8), ("c16", 16), ("c64", 64), ("times2", 2), ("times3", 3)
    )
)  # fmt: skip


def _module(args: str, head: str, bodies: Sequence[str], target: str, kind: str = "vector") -> str:
    body = "\n".join(bodies)
    return (
        f'module attributes {{pto.target_arch = "{target}", pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{\n'
        f"func.func @k({args}) attributes {{pto.kernel}} {{\n{CONSTANTS}\n{head}\n{body}\nreturn\n}}\n}}\n"
    )


# -- tiles -----------------------------------------------------------------------------------------

TILE, PART = "!pto.tile_buf<vec, 8x64xf32>", "!pto.partition_tensor_view<8x64xf32>"
SIZE = 8 * 64 * 4


def views(names: Sequence[str]) -> str:
    """Of each array the whole as a view `%vNAME` and as its part `%pNAME`."""
    return "\n".join(
        f"""%v{p} = pto.make_tensor_view %{p}, shape = [%c8, %c64], strides = [%c64, %c1] : !pto.tensor_view<8x64xf32>
%p{p} = pto.partition_view %v{p}, offsets = [%c0, %c0], sizes = [%c8, %c64] : !pto.tensor_view<8x64xf32> -> {PART}"""
        for p in names
    )


VIEWS = views("xy")
TILES = f"%one = arith.constant 1.0 : f32\n{VIEWS}\n" + "\n".join(
    f"%a{n} = arith.constant {n * SIZE} : i64\n%t{n} = pto.alloc_tile addr = %a{n} : {TILE}"
    for n in range(3)
)


def _tile_bytes(number: int) -> Bytes:
    return {"vec": span(number * SIZE, SIZE)}


def _tile_line(rng: Random) -> Line:
    """A load, a store, a sum or a fill: whole tiles of 2048 bytes, at addresses of their own."""
    one, two, out = (rng.randrange(3) for _ in range(3))
    match rng.randrange(4):
        case 0:
            text = f"pto.tload ins(%px : {PART}) outs(%t{out} : {TILE})"
            return Line(text, "MTE2", {"=x": span(0, SIZE)}, _tile_bytes(out))
        case 1:
            text = f"pto.tstore ins(%t{one} : {TILE}) outs(%py : {PART})"
            return Line(text, "MTE3", _tile_bytes(one), {"=y": span(0, SIZE)})
        case 2:
            text = f"pto.texpands ins(%one : f32) outs(%t{out} : {TILE})"
            return Line(text, "V", {}, _tile_bytes(out))
        case _:
            text = f"pto.tadd ins(%t{one}, %t{two} : {TILE}, {TILE}) outs(%t{out} : {TILE})"
            both = {"vec": span(one * SIZE, SIZE) | span(two * SIZE, SIZE)}
            return Line(text, "V", both, _tile_bytes(out))


def _of_tiles(bodies: Sequence[str], target: str) -> str:
    return _module("%x: !pto.ptr<f32, gm>, %y: !pto.ptr<f32, gm>", TILES, bodies, target)


def tiles(seed: int, target: str) -> Model:
    """Tile operations at random, ordered by flags and barriers."""
    rng = Random(f"tiles {seed} {target}")
    lines = tuple(_tile_line(rng) for _ in range(rng.randrange(4, 9)))
    part = ordered(Part((0,), lines), target)
    return Model(f"tiles{seed}", target, (part,), lambda b: _of_tiles(b, target))


def tokens(seed: int, target: str) -> Model:
    """Tile operations in a loop, each pipe holding the tokens of the tiles it touches, and token 7
    for `y`."""
    rng = Random(f"tokens {seed}")
    body: list[Line] = []
    for _ in range(rng.randrange(3, 6)):
        line = _tile_line(rng)
        touched = line.reads.get("vec", 0) | line.writes.get("vec", 0)
        held = [n for n in range(3) if touched & span(n * SIZE, SIZE)]
        held += [7] if "=y" in line.writes else []
        body += [token("get", line.pipe, n) for n in held]
        body += [line, *(token("rls", line.pipe, n) for n in held)]
    part = Part((0,), body=tuple(body), times=2)
    return Model(f"tokens{seed}", target, (part,), lambda b: _of_tiles(b, target))


# -- raw pointers, vector regions, logical vectors -------------------------------------------------

FLOATS = "!pto.ptr<f32, ub>"


def _pointers(places: Sequence[int]) -> str:
    return "\n".join(
        f"%at{n} = arith.constant {at} : i64\n%q{n} = pto.castptr %at{n} : i64 -> {FLOATS}"
        for n, at in enumerate(places)
    )


def _transfer(rng: Random, places: Sequence[int], *, inwards: bool) -> Line:
    """Bursts between global memory and UB, with gaps between them."""
    which = rng.randrange(len(places))
    size, count = rng.choice((32, 64, 256)), rng.choice((1, 2, 3))
    there, here = (size + rng.choice((0, 32, 64)) for _ in range(2))
    ub = {"vec": bursts(places[which], size, count, here)}
    gm = bursts(0, size, count, there)
    if inwards:
        text = (
            f"pto.mte_gm_ub %x, %q{which}, 0, {size} nburst({count}, {there}, {here}) : "
            f"!pto.ptr<f32, gm>, {FLOATS}"
        )
        return Line(text, "MTE2", {"=x": gm}, ub)
    text = (
        f"pto.mte_ub_gm %q{which}, %y, {size} nburst({count}, {here}, {there}) : "
        f"{FLOATS}, !pto.ptr<f32, gm>"
    )
    return Line(text, "MTE3", ub, {"=y": gm})


def _region(rng: Random, places: Sequence[int], *, logical: bool) -> Line:
    """A register loaded and stored: 256 bytes read, 256 or the first 32 of them written."""
    one, two = rng.randrange(len(places)), rng.randrange(len(places))
    far = rng.choice((0, 64))  # elements
    if logical:
        inner = (
            f"%r = pto.vmi.vload %q{one}[%c{far}] : {FLOATS} -> !pto.vmi.vreg<64xf32>\n"
            f"pto.vmi.vstore %r, %q{two}[%c0] : !pto.vmi.vreg<64xf32>, {FLOATS}"
        )
        size = 256
    else:
        pattern, size = rng.choice((("PAT_ALL", 256), ("PAT_VL8", 32)))
        inner = (
            f'%m = pto.pset_b32 "{pattern}" : !pto.mask<b32>\n'
            f"%r = pto.vlds %q{one}[%c{far}] : {FLOATS} -> !pto.vreg<64xf32>\n"
            f"pto.vsts %r, %q{two}[%c0], %m : !pto.vreg<64xf32>, {FLOATS}, !pto.mask<b32>"
        )
    reads = {"vec": span(places[one] + 4 * far, 256)}
    return Line(f"pto.vecscope {{\n{inner}\n}}", "V", reads, {"vec": span(places[two], size)})


def pointers(seed: int, target: str, *, logical: bool = False) -> Model:
    """Transfers and vector regions through pointers whose places meet in part."""
    name = "logical" if logical else "pointers"
    rng = Random(f"{name} {seed}")
    places = [32 * rng.randrange(40) for _ in range(4)]
    lines = []
    for _ in range(rng.randrange(4, 8)):
        kind = rng.randrange(3)
        lines += [
            _region(rng, places, logical=logical)
            if kind == 0
            else _transfer(rng, places, inwards=kind == 1)
        ]
    part = ordered(Part((0,), tuple(lines)), target)
    args, head = "%x: !pto.ptr<f32, gm>, %y: !pto.ptr<f32, gm>", _pointers(places)
    return Model(f"{name}{seed}", target, (part,), lambda b: _module(args, head, b, target))


# -- signals between the cores of a cluster --------------------------------------------------------

HALF, EIGHT = "!pto.partition_tensor_view<4x64xf32>", "!pto.tile_buf<vec, 4x64xf32>"
CUBE = "!pto.tile_buf<mat, 8x64xf32>"
QUARTER = 4 * 64 * 4


def _half(core: int) -> Bytes:
    return {"=y": span((core - 1) * QUARTER, QUARTER)}


def _signal(kind: str, pipe: str, number: int, target: str, who: int | None = None) -> Line:
    """A signal of the cube core (`who`: of or to which vector core, on A5) or of a vector core."""
    word = f"sync.{kind}"
    shown = number
    if who == 2:
        word, shown = {"set": "set_intra_block", "wait": "wait_intra_block"}[kind], number + 16

    def ends(core: int) -> tuple:
        others = (1, 2) if who is None else (who,)
        return tuple((number, v) for v in (others if core == 0 else (core,)))

    gives, takes = (ends, None) if kind == "set" else (None, ends)
    return Line(
        f"pto.{word} <PIPE_{pipe}>, {shown}",
        pipe,
        gives=gives,
        takes=takes,
        again=lambda other: _signal(kind, pipe, (number + other) % 11, target, who),
        kinds=("drop", "up", "down", "renumber"),
    )


def cores(seed: int, target: str) -> Model:
    """Each vector core writes its half of `y`, the cube core reads both halves, the vector cores write
    theirs again; on A5 the cube core names each vector core."""
    each = (1, 2) if target == "a5" else (None,)
    load = Line(
        f"pto.tload ins(%from : {HALF}) outs(%e : {EIGHT})", "MTE2",
        by_core=lambda core: ({"=x": span((core - 1) * QUARTER, QUARTER)}, {"vec": span(0, QUARTER)}),
    )  # fmt: skip
    store = Line(
        f"pto.tstore ins(%e : {EIGHT}) outs(%half : {HALF})", "MTE3",
        by_core=lambda core: ({"vec": span(0, QUARTER)}, _half(core)),
    )  # fmt: skip
    take = Line(
        f"pto.tload ins(%py : {PART}) outs(%m : {CUBE})", "MTE2",
        {"=y": span(0, SIZE)}, {"mat": span(0, SIZE)},
    )  # fmt: skip
    vector = (
        load, flag("set", "MTE2", "MTE3"), flag("wait", "MTE2", "MTE3"), store,
        _signal("set", "MTE3", 5, target), _signal("wait", "MTE3", 6, target), store,
    )  # fmt: skip
    cube = (
        *(_signal("wait", "MTE2", 5, target, who) for who in each), take,
        flag("set", "MTE2", "FIX"), flag("wait", "MTE2", "FIX"),
        *(_signal("set", "FIX", 6, target, who) for who in each),
    )  # fmt: skip
    heads = (
        f"%m = pto.alloc_tile : {CUBE}",
        f"""%which = pto.get_subblock_idx
%at = arith.index_cast %which : i64 to index
%row = arith.muli %at, %c4 : index
%half = pto.partition_view %vy, offsets = [%row, %c0], sizes = [%c4, %c64] : !pto.tensor_view<8x64xf32> -> {HALF}
%from = pto.partition_view %vx, offsets = [%row, %c0], sizes = [%c4, %c64] : !pto.tensor_view<8x64xf32> -> {HALF}
%e = pto.alloc_tile : {EIGHT}""",
    )

    def around(bodies: Sequence[str]) -> str:
        flags = (
            ""
            if target == "a5"
            else "%f = memref.alloc() : memref<16xi64>\npto.set_ffts %f : memref<16xi64>\n"
        )
        sections = (
            f"pto.section.{kind} {{\n{head}\n{body}\n}}"
            for kind, head, body in zip(("cube", "vector"), heads, bodies, strict=True)
        )
        return (
            f'module attributes {{pto.target_arch = "{target}"}} {{\nfunc.func @k(%x: !pto.ptr<f32>, '
            f"%y: !pto.ptr<f32>) {{\n{CONSTANTS}\n{VIEWS}\n{flags}{chr(10).join(sections)}\nreturn\n}}\n}}\n"
        )

    return Model(f"cores{seed}", target, (Part((0,), cube), Part((1, 2), vector)), around)


# -- FIFOs -----------------------------------------------------------------------------------------

ACC = "!pto.tile_buf<acc, 16x64xf32, blayout=col_major, slayout=row_major, fractal=1024>"
LEFT = "!pto.tile_buf<left, 16x16xf16, blayout=col_major, slayout=row_major>"
RIGHT = "!pto.tile_buf<right, 16x64xf16, blayout=row_major, slayout=col_major>"
SHARE = "!pto.tile_buf<vec, 8x64xf32>"


def fifos(seed: int, target: str) -> Model:
    """Products of the cube core go to the vector cores through a FIFO; each vector core scales its
    halves and stores them. On A2/A3 the slots are in global memory, from where a pop copies on MTE2; on
    A5 the push fills the vector core's own memory, and the scalar unit, which waits for it, pops and
    frees."""
    copies = target == "a2a3"
    product = Line(
        f"pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%acc : {ACC})", "M",
        {"left": span(0, 512), "right": span(0, 2048)}, {"acc": span(0, 4096)},
    )  # fmt: skip
    rounds = 2 + seed % 2
    cube: list[Line] = []
    vector: list[Line] = []
    for n in range(rounds):
        push = Line(
            f"pto.tpush_to_aiv(%acc : {ACC}) {{split = 1}}", "FIX", {"acc": span(0, 4096)},
            {} if copies else {f"={core} slot{n}": span(0, 2048) for core in (1, 2)},
            gives=lambda core, n=n: (("slot", n, 1), ("slot", n, 2)),
        )  # fmt: skip
        cube += [product, flag("set", "M", "FIX", n), flag("wait", "M", "FIX", n), push]
        cube += [flag("set", "FIX", "M", n), flag("wait", "FIX", "M", n)]
        pop = Line(
            f"%t{n} = pto.tpop_from_aic {{split = 1}} -> {SHARE}", "MTE2" if copies else "S",
            {}, {f"slot{n % 2}": span(0, 2048)} if copies else {},
            takes=lambda core, n=n: (("slot", n, core),),
        )  # fmt: skip
        add = Line(
            f"pto.tmuls ins(%t{n}, %one : {SHARE}, f32) outs(%e : {SHARE})", "V",
            by_core=lambda core, n=n: (
                {f"slot{n % 2}" if copies else f"={core} slot{n}": span(0, 2048)},
                {"vec": span(0, 2048)},
            ),
        )  # fmt: skip
        store = Line(
            f"pto.tstore ins(%e : {SHARE}) outs(%py : {PART})", "MTE3",
            by_core=lambda core: ({"vec": span(0, 2048)}, {f"=y{core}": span(0, 2048)}),
        )  # fmt: skip
        given = flag("set", "MTE2", "V", n), flag("wait", "MTE2", "V", n)
        back = flag("set", "V", "MTE2", n), flag("wait", "V", "MTE2", n)
        free = Line("pto.tfree_from_aic {split = 1}")
        vector += [
            pop, *(given if copies else ()), add,
            flag("set", "V", "MTE3", n), *(back[:1] if copies else ()), flag("wait", "V", "MTE3", n),
            store, *(back[1:] if copies else (free,)),
            flag("set", "MTE3", "V", n), flag("wait", "MTE3", "V", n),
        ]  # fmt: skip
    return Model(
        f"fifos{seed}",
        target,
        (Part((0,), tuple(cube)), Part((1, 2), tuple(vector))),
        _pair(target),
    )


def _pair(target: str) -> Callable[[Sequence[str]], str]:
    args = "%y: !pto.ptr<f32>, %slots: !pto.ptr<f32>"

    def around(bodies: Sequence[str]) -> str:
        cube, vector = bodies
        ends = "(gm_slot_buffer = %slots : !pto.ptr<f32>, c2v_consumer_buf = %c2v : i32, v2c_consumer_buf = %v2c : i32)"
        return f"""module attributes {{pto.target_arch = "{target}"}} {{
func.func @cube_kernel({args}) attributes {{pto.kernel_kind = #pto.kernel_kind<cube>}} {{
{CONSTANTS}
%v2c = arith.constant 0 : i32
%c2v = pto.import_reserved_buffer {{name = "c2v", peer_func = @vector_kernel}} -> i32
pto.aic_initialize_pipe {{dir_mask = 1, slot_size = 4096}} {ends}
%l = pto.alloc_tile : {LEFT}
%r = pto.alloc_tile : {RIGHT}
%acc = pto.alloc_tile : {ACC}
{cube}
return
}}
func.func @vector_kernel({args}) attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
{CONSTANTS}
%one = arith.constant 2.0 : f32
%v2c = arith.constant 0 : i32
%c2v = pto.reserve_buffer {{name = "c2v", size = 32768, location = #pto.address_space<vec>, auto = true}} -> i32
pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = 4096}} {ends}
%which = pto.get_subblock_idx
%at = arith.index_cast %which : i64 to index
%row = arith.muli %at, %c8 : index
%vy = pto.make_tensor_view %y, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
%py = pto.partition_view %vy, offsets = [%row, %c0], sizes = [%c8, %c64] : !pto.tensor_view<16x64xf32> -> {PART}
%e = pto.alloc_tile : {SHARE}
{vector}
return
}}
}}
"""

    return around


# -- signals between ranks -------------------------------------------------------------------------

SIGNAL = "!pto.tensor_view<1xi32>"


def _notify(cell: str) -> Line:
    return Line(
        f"pto.comm.tnotify(%v{cell}, %i1 : {SIGNAL}, i32) {{notifyOp = #pto<notify_op set>}}", "S",
        sync=("notify",), gives=lambda core: (("cell", cell),), kinds=("drop", "up", "down"),
    )  # fmt: skip


def _wait(cell: str) -> Line:
    return Line(
        f"pto.comm.twait(%v{cell}, %i1 : {SIGNAL}, i32) {{cmp = #pto<wait_cmp ge>}}", "S",
        takes=lambda core: (("cell", cell),), kinds=("drop", "up", "down"),
    )  # fmt: skip


def signals(seed: int, target: str) -> Model:
    """The vector cores and the cube core by signals in memory: one vector core writes `y` and says so,
    the cube core reads it and says so, and the vector core writes it again."""
    fill = Line(f"pto.texpands ins(%f1 : f32) outs(%e : {SHARE})", "V", {}, {"vec": span(0, SIZE)})
    store = Line(
        f"pto.tstore ins(%e : {SHARE}) outs(%py : {PART})",
        "MTE3",
        {"vec": span(0, SIZE)},
        {"=y": span(0, SIZE)},
    )
    take = Line(
        f"pto.tload ins(%py : {PART}) outs(%m : {CUBE})",
        "MTE2",
        {"=y": span(0, SIZE)},
        {"mat": span(0, SIZE)},
    )
    vector = (
        fill, flag("set", "V", "MTE3"), flag("wait", "V", "MTE3"), store,
        flag("set", "MTE3", "S"), flag("wait", "MTE3", "S"), _notify("a"), _wait("b"), store,
    )  # fmt: skip
    cube = (
        _wait("a"), take, flag("set", "MTE2", "S"), flag("wait", "MTE2", "S"), _notify("b"),
    )  # fmt: skip

    def around(bodies: Sequence[str]) -> str:
        cells = "\n".join(
            f"%v{c} = pto.make_tensor_view %s{c}, shape = [%c1], strides = [%c1] : {SIGNAL}"
            for c in "ab"
        )
        return f"""module attributes {{pto.target_arch = "{target}"}} {{
func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %sa: !pto.ptr<i32>, %sb: !pto.ptr<i32>) {{
{CONSTANTS}
%i1 = arith.constant 1 : i32
%f1 = arith.constant 1.0 : f32
{VIEWS}
{cells}
pto.section.cube {{
%m = pto.alloc_tile : {CUBE}
{bodies[0]}
}}
pto.section.vector {{
%which = pto.get_subblock_idx
%zero = arith.constant 0 : i64
%first = arith.cmpi eq, %which, %zero : i64
scf.if %first {{
%e = pto.alloc_tile : {SHARE}
{bodies[1]}
}}
}}
return
}}
}}
"""

    return Model(
        f"signals{seed}", target, (Part((0,), cube), Part((1,), vector)), around, needs_values=True
    )
