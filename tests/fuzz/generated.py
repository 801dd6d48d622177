"""Programs made at random that are right as they are made: of tiles, of vector registers, of threads
and of virtual vectors. Each takes pointers `%x` and `%y` to 1024 floats."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_BINARY = ("tadd", "tsub", "tmul", "tmax", "tmin")
_UNARY = ("tabs", "texp", "trelu", "tneg", "tsqrt", "tmov")
_SCALAR = ("tadds", "tmuls", "tmaxs", "tmins")


def generated(rng: Random) -> tuple[str, str]:
    """Return a program and its target."""
    return rng.choice(_MAKERS)(rng)


def _module(body: str, target: str, kind: str = "") -> str:
    kind = ", pto.kernel_kind = #pto.kernel_kind<vector>" if kind else ""
    return (
        f'module attributes {{pto.target_arch = "{target}"{kind}}} {{\n'
        "  func.func @k(%x: !pto.ptr<f32, gm>, %y: !pto.ptr<f32, gm>) attributes {pto.kernel} {\n"
        f"    %c0 = arith.constant 0 : index\n    %c1 = arith.constant 1 : index\n"
        f"    %c2 = arith.constant 2 : index\n    %s = arith.constant 1.5 : f32\n"
        f"{body}\n    return\n  }}\n}}\n"
    )


def _tiles(rng: Random) -> tuple[str, str]:
    """Tile operations between a load and a store, some in a loop or a branch."""
    rows, target = rng.choice((1, 8, 8, 16, 32)), rng.choice(("a2a3", "a5"))
    columns = rng.choice((8, 1024 // max(rows, 8)))
    shape = f"{rows}x{columns}"
    tile, part = f"!pto.tile_buf<vec, {shape}xf32>", f"!pto.partition_tensor_view<{shape}xf32>"
    view = f"!pto.tensor_view<{shape}xf32>"
    count = rng.choice((1, 1, 2, 3, 4))
    names = [f"%t{n}" for n in range(count)]

    def work() -> str:
        one, two, out = (rng.choice(names) for _ in range(3))
        match rng.randrange(3):
            case 0:
                return f"pto.{rng.choice(_BINARY)} ins({one}, {two} : {tile}, {tile}) outs({out} : {tile})"
            case 1:
                return f"pto.{rng.choice(_UNARY)} ins({one} : {tile}) outs({out} : {tile})"
            case _:
                return (
                    f"pto.{rng.choice(_SCALAR)} ins({one}, %s : {tile}, f32) outs({out} : {tile})"
                )

    def some(least: int) -> str:
        return "\n".join(work() for _ in range(rng.choice((least, least, least + 1, least + 3))))

    placed = rng.random() < 0.3
    lines = [f"%r = arith.constant {rows} : index", f"%w = arith.constant {columns} : index"]
    for p in "xy":
        lines += [
            f"%v{p} = pto.make_tensor_view %{p}, shape = [%r, %w], strides = [%w, %c1] : {view}",
            f"%p{p} = pto.partition_view %v{p}, offsets = [%c0, %c0], sizes = [%r, %w] : {view} -> {part}",
        ]
    for n, name in enumerate(names):
        at = f" addr = %a{n}" if placed else ""
        lines += [f"%a{n} = arith.constant {n * rows * columns * 4} : i64"] if placed else []
        lines += [f"{name} = pto.alloc_tile{at} : {tile}"]
    lines += [f"pto.tload ins(%px : {part}) outs({name} : {tile})" for name in names]
    lines += [some(1)]
    match rng.randrange(6):
        case 0:
            lines += [f"scf.for %i = %c0 to %c2 step %c1 {{\n{some(1)}\n}}"]
        case 1:
            lines += [
                f"%b = arith.cmpi slt, %c1, %c2 : index\nscf.if %b {{\n{some(1)}\n}} else {{\n{some(1)}\n}}"
            ]
    lines += [f"pto.tstore ins({rng.choice(names)} : {tile}) outs(%py : {part})"]
    return _module("\n".join(lines), target), target


def _in_ub(body: str, rng: Random) -> tuple[str, str]:
    """What is in a vector region, between the transfers of its data."""
    flag = 'pto.{}_flag["PIPE_{}", "PIPE_{}", "EVENT_ID0"]'.format
    lines = (
        "%at = arith.constant 0 : i64\n%to = arith.constant 8192 : i64\n"
        f"%n = arith.constant {rng.choice((64, 256, 1024))} : index\n"
        "%q = pto.castptr %at : i64 -> !pto.ptr<f32, ub>\n%p = pto.castptr %to : i64 -> !pto.ptr<f32, ub>\n"
        "pto.mte_gm_ub %x, %q, 0, 4096 nburst(1, 4096, 4096) : !pto.ptr<f32, gm>, !pto.ptr<f32, ub>\n"
        f"{flag('set', 'MTE2', 'V')}\n{flag('wait', 'MTE2', 'V')}\npto.vecscope {{\n{body}\n}}\n"
        f"{flag('set', 'V', 'MTE3')}\n{flag('wait', 'V', 'MTE3')}\n"
        "pto.mte_ub_gm %p, %y, 4096 nburst(1, 4096, 4096) : !pto.ptr<f32, ub>, !pto.ptr<f32, gm>"
    )
    return _module(lines, "a5", "vector"), "a5"


def _registers(rng: Random) -> tuple[str, str]:
    """Instructions on vector registers."""
    reg, mask = "!pto.vreg<64xf32>", "!pto.mask<b32>"
    lines = [f'%m = pto.pset_b32 "PAT_ALL" : {mask}', "%c64 = arith.constant 64 : index"]
    inner = [f"%r0 = pto.vlds %q[%i] : !pto.ptr<f32, ub> -> {reg}"]
    for n in range(1, count := rng.choice((1, 2, 2, 3, 5))):
        one, two = (f"%r{rng.randrange(n)}" for _ in range(2))
        if rng.random() < 0.6:
            word = rng.choice(("vadd", "vsub", "vmul", "vmax", "vmin"))
            inner += [f"%r{n} = pto.{word} {one}, {two}, %m : {reg}, {reg}, {mask} -> {reg}"]
        else:
            word = rng.choice(("vabs", "vneg", "vexp", "vrelu"))
            inner += [f"%r{n} = pto.{word} {one}, %m : {reg}, {mask} -> {reg}"]
    inner += [f"pto.vsts %r{count - 1}, %p[%i], %m : {reg}, !pto.ptr<f32, ub>, {mask}"]
    loop = "scf.for %i = %c0 to %n step %c64 {\n" + "\n".join(inner) + "\n}"
    return _in_ub("\n".join([*lines, loop]), rng)


def _virtual(rng: Random) -> tuple[str, str]:
    """Operations on virtual vectors."""
    lanes = rng.choice((64, 128, 256))
    reg = f"!pto.vmi.vreg<{lanes}xf32>"
    inner = [f"%r0 = pto.vmi.vload %q[%i] : !pto.ptr<f32, ub> -> {reg}"]
    for n in range(1, count := rng.choice((1, 2, 2, 3, 5))):
        one, two = (f"%r{rng.randrange(n)}" for _ in range(2))
        if rng.random() < 0.6:
            word = rng.choice(("vadd", "vsub", "vmul", "vmax", "vmin"))
            inner += [f"%r{n} = pto.vmi.{word} {one}, {two} : {reg}, {reg} -> {reg}"]
        else:
            word = rng.choice(("vabs", "vneg", "vexp", "vrelu"))
            inner += [f"%r{n} = pto.vmi.{word} {one} : {reg} -> {reg}"]
    inner += [f"pto.vmi.vstore %r{count - 1}, %p[%i] : {reg}, !pto.ptr<f32, ub>"]
    step = f"%w = arith.constant {lanes} : index"
    loop = "scf.for %i = %c0 to %n step %w {\n" + "\n".join(inner) + "\n}"
    return _in_ub(f"{step}\n{loop}", rng)


def _threads(rng: Random) -> tuple[str, str]:
    """Threads that compute an element each."""
    lines = [
        "%t = pto.get_tid_x : i32", "%i = arith.index_cast %t : i32 to index",
        "%e = arith.constant 3 : i32", "%v0 = pto.ldg %x[%i] : !pto.ptr<f32, gm> -> f32",
    ]  # fmt: skip
    count = rng.choice((1, 2, 3, 5))
    for n in range(1, count):
        word = rng.choice(("addf", "subf", "mulf", "maximumf"))
        lines += [f"%v{n} = arith.{word} %v{n - 1}, %v{rng.randrange(n)} : f32"]
    last = f"%v{count - 1}"
    store = f"pto.stg {last}, %y[%i] : !pto.ptr<f32, gm>, f32"
    if rng.random() < 0.5:
        store = f"%b = arith.cmpi sgt, %t, %e : i32\nscf.if %b {{\n{store}\n}}"
    if rng.random() < 0.3:
        lines += ["pto.syncthreads"]
    size = rng.choice((1, 32, 32, 64, 512))
    body = "\n".join([*lines, store])
    return _module(f"pto.section.simt<<<{size}, 1, 1>>> {{\n{body}\n}}", "a5", "vector"), "a5"


_MAKERS: tuple[Callable[[Random], tuple[str, str]], ...] = (
    _tiles, _tiles, _registers, _virtual, _threads,
)  # fmt: skip
