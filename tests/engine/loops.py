"""Loops of vector regions made at random: of whole registers and parts, pointers that move, masks of
every kind, reductions, conversions, loops in loops that carry registers, places that overlap."""

from __future__ import annotations

from random import Random

P, V, M = "!pto.ptr<f32, ub>", "!pto.vreg<64xf32>", "!pto.mask<b32>"
H, HP = "!pto.vreg<128xf16>", "!pto.ptr<f16, ub>"

_PAIRS = ("vadd", "vsub", "vmul", "vmax", "vmin", "vdiv", "vexpdif")
_SINGLES = ("vabs", "vneg", "vexp", "vrelu", "vsqrt", "vcmax", "vcmin", "vcadd", "vcgadd", "vcpadd",
            "vcgmax", "dup")  # fmt: skip
_LOADS = ("NORM", "NORM", "NORM", "BRC_B32", "US_B16", "DS_B16", "E2B_B32", "BRC_BLK", "UNPK_B16")
_MASKS = ("%all", "%all", "%all", "%some", "%none", "%odd")


class _Body:
    """The text of one loop."""

    def __init__(self, rng: Random, depth: int) -> None:
        self.rng, self.depth = rng, depth
        self.lines: list[str] = []
        self.registers: list[str] = []
        self.masks: list[str] = list(_MASKS)
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"%v{self.depth}_{self._names}"

    def line(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def register(self) -> str:
        return self.rng.choice(self.registers) if self.registers else "%zeros"

    def mask(self) -> str:
        return self.rng.choice(self.masks)

    def place(self, variable: str) -> str:
        """An offset in elements."""
        step = self.rng.choice(("%c64", "%c64", "%c64", "%c128", "%c48", "%c8", "%c1", "%c200"))
        at = self.line(f"arith.muli {variable}, {step} : index")
        if self.rng.random() < 0.3:
            more = self.rng.choice(("%c64", "%c8", "%c1", "%c4096"))
            word = self.rng.choice(("addi", "addi", "xori"))
            at = self.line(f"arith.{word} {at}, {more} : index")
        return at

    def load(self, variable: str) -> None:
        word, pointer = self.rng.choice(_LOADS), self.rng.choice(("%x", "%x", "%y", "%z"))
        at = self.place(variable)
        name = self.line(f'pto.vlds {pointer}[{at}] {{dist = "{word}"}} : {P} -> {V}')
        self.registers.append(name)

    def compute(self) -> None:
        rng, mask = self.rng, self.mask()
        a, b = self.register(), self.register()
        match rng.randrange(8):
            case 0 | 1 | 2:
                word = rng.choice(_PAIRS)
                part = ', "EVEN"' if word == "vexpdif" else ""
                name = self.line(f"pto.{word} {a}, {b}, {mask}{part} : {V}, {V}, {M} -> {V}")
            case 3 | 4:
                word = rng.choice(_SINGLES)
                if word == "dup":
                    name = self.line(
                        f'pto.vdup {a}, {mask} {{position = "LOWEST"}} : {V}, {M} -> {V}'
                    )
                else:
                    name = self.line(f"pto.{word} {a}, {mask} : {V}, {M} -> {V}")
            case 5:
                word = rng.choice(("vmuls", "vadds", "vmaxs"))
                name = self.line(f"pto.{word} {a}, %f, {mask} : {V}, f32, {M} -> {V}")
            case 6:
                self.masks.append(
                    self.line(f'pto.vcmp {a}, {b}, {mask}, "lt" : {V}, {V}, {M} -> {M}')
                )
                return
            case _:
                name = self.line(f"pto.vsel {a}, {b}, {self.mask()} : {V}, {V}, {M} -> {V}")
        self.registers.append(name)

    def store(self, variable: str) -> None:
        pointer, value = self.rng.choice(("%z", "%z", "%z", "%x")), self.register()
        mask = self.mask() if self.rng.random() < 0.3 else "%all"
        at = self.place(variable)
        match self.rng.randrange(6):
            case 0:
                word = self.rng.choice((' {dist = "1PT_B32"}', ""))
            case 1:
                half = self.line(
                    f'pto.vcvt {value}, %all {{rnd = "R", sat = "SAT", part = "EVEN"}} : {V}, {M} -> {H}'
                )
                self.lines.append(
                    f'pto.vsts {half}, %h[{at}], {mask} {{dist = "PK_B32"}} : {H}, {HP}, {M}'
                )
                return
            case _:
                word = ""
        self.lines.append(f"pto.vsts {value}, {pointer}[{at}], {mask}{word} : {V}, {P}, {M}")

    def some(self, variable: str) -> None:
        for _ in range(self.rng.randint(1, 2)):
            self.load(variable)
        for _ in range(self.rng.randint(1, 4)):
            self.compute()
        if self.rng.random() < 0.8:
            self.store(variable)
        if self.rng.random() < 0.15:
            self.load(variable)

    def moving(self) -> tuple[str, str, str]:
        """Accesses that move their pointers, and lanes that are left: what is handed on."""
        self.lines += [
            f"%mask, %rest = pto.plt_b32 %left : i32 -> {M}, i32",
            f"%moved, %p1 = pto.vlds %p[%by] : {P} -> {V}, {P}",
        ]
        self.registers.append("%moved")
        self.masks += ["%mask", "%mask"]
        self.compute()
        value = self.register()
        self.lines.append(f"%q1 = pto.vsts {value}, %q[%by], %mask : {V}, {P}, {M} -> {P}")
        return "%rest", "%p1", "%q1"

    def folded(self) -> None:
        """A loop that carries a register."""
        inner = _Body(self.rng, self.depth + 1)
        inner.registers = [*self.registers, "%acc"]
        inner.some("%j" if self.rng.random() < 0.5 else "%i")
        total = inner.line(f"pto.vadd %acc, {inner.register()}, %all : {V}, {V}, {M} -> {V}")
        upper = self.rng.choice(("%c0", "%c1", "%c3", "%c8"))
        result = self.name()
        self.lines.append(
            f"{result} = scf.for %j = %c0 to {upper} step %c1 iter_args(%acc = %zeros) -> ({V}) {{"
        )
        self.lines += [*inner.lines, f"scf.yield {total} : {V}", "}"]
        self.registers.append(result)


def loop(rng: Random) -> str:
    """Return a vector region's loop, whose places and values are those of `module`."""
    body = _Body(rng, 0)
    kind = rng.randrange(4)
    start, step = rng.choice(("%c0", "%c1")), rng.choice(("%c1", "%c1", "%c1", "%c3"))
    head = f"scf.for %i = {start} to %n step {step}"
    if kind == 0:
        handed = ", ".join(body.moving())
        types = f"i32, {P}, {P}"
        return "\n".join(
            [f"%done:3 = {head} iter_args(%left = %lanes, %p = %x, %q = %z) -> ({types}) {{",
             *body.lines, f"scf.yield {handed} : {types}", "}"]
        )  # fmt: skip
    body.some("%i")
    if kind == 1:
        body.folded()
        body.some("%i")
    if rng.random() < 0.2:
        body.lines.append('pto.mem_bar "VST_VLD"')
    return "\n".join([f"{head} {{", *body.lines, "}"])


def module(rng: Random) -> str:
    """Return a program of one or two loops in a region, or of a loop of them."""
    loops = [loop(rng)]
    if rng.random() < 0.3:
        loops.append(loop(rng).replace("%done:3", "%again:3"))
    region = "\n".join(loops)
    if rng.random() < 0.2:
        region = f"scf.for %outer = %c0 to %c3 step %c1 {{\n{region}\n}}"
    distance = rng.choice((65536, 65536, 65536, 8192, 260))
    sizes = "".join(
        f"%c{n} = arith.constant {n} : index\n" for n in (0, 1, 3, 8, 48, 64, 128, 200, 4096)
    )
    return f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  func.func @k(%g: !pto.ptr<f32, gm>, %n: index, %f: f32, %lanes: i32) {{
    {sizes}
    %by = arith.constant {rng.choice((64, 64, 32, 128))} : index
    %few = arith.constant {rng.choice((37, 1, 63))} : i32
    %nothing = arith.constant 0 : i32
    %zero = arith.constant 0.0 : f32
    %size = arith.constant 229376 : i64
    %one = arith.constant 1 : i64
    %b0 = arith.constant 0 : i64
    %b1 = arith.constant {distance} : i64
    %b2 = arith.constant {2 * distance} : i64
    %b3 = arith.constant 196608 : i64
    %x = pto.castptr %b0 : i64 -> {P}
    %y = pto.castptr %b1 : i64 -> {P}
    %z = pto.castptr %b2 : i64 -> {P}
    %h = pto.castptr %b3 : i64 -> {HP}
    pto.mte_gm_ub %g, %x, %b0, %size nburst(%one, %size, %size) : !pto.ptr<f32, gm>, {P}, i64, i64, i64, i64, i64
    pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.vecscope {{
      %all = pto.pset_b32 "PAT_ALL" : {M}
      %odd = pto.pset_b32 "PAT_M3" : {M}
      %some, %l0 = pto.plt_b32 %few : i32 -> {M}, i32
      %none, %l1 = pto.plt_b32 %nothing : i32 -> {M}, i32
      %zeros = pto.vbr %zero : f32 -> {V}
      {region}
    }}
    pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.wait_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.mte_ub_gm %x, %g, %size nburst(%one, %size, %size) : {P}, !pto.ptr<f32, gm>, i64, i64, i64, i64
    return
  }}
}}"""


# -- logical vectors -------------------------------------------------------------------------------


class _Logical:
    """The text of a loop of operations on logical vectors."""

    def __init__(self, rng: Random, lanes: int) -> None:
        self.rng, self.lanes, self.names = rng, lanes, 0
        self.v, self.h = (f"!pto.vmi.vreg<{lanes}x{t}>" for t in ("f32", "f16"))
        self.m, self.one = f"!pto.vmi.mask<{lanes}xpred>", "!pto.vmi.vreg<1xf32>"
        self.lines: list[str] = []
        self.vectors: list[str] = []
        self.masks = ["%all", "%all", "%some", "%none"]

    def line(self, text: str) -> str:
        self.names += 1
        self.lines.append(f"%v{self.names} = {text}")
        return f"%v{self.names}"

    def place(self) -> str:
        step = self.rng.choice(("%w", "%w", "%w", "%c64", "%c8", "%c1"))
        at = self.line(f"arith.muli %i, {step} : index")
        if self.rng.random() < 0.3:
            at = self.line(f"arith.addi {at}, {self.rng.choice(('%w', '%c64', '%c8'))} : index")
        return at

    def load(self) -> None:
        pointer, at = self.rng.choice(("%x", "%x", "%y", "%z")), self.place()
        words = self.rng.choice(("", "", "", ' {dist_mode = "brc"}'))
        self.vectors.append(self.line(f"pto.vmi.vload {pointer}[{at}]{words} : {P} -> {self.v}"))

    def compute(self) -> None:
        rng, v, m = self.rng, self.v, self.m
        a, b, mask = rng.choice(self.vectors), rng.choice(self.vectors), rng.choice(self.masks)
        match rng.randrange(7):
            case 0 | 1:
                word = rng.choice(("vadd", "vsub", "vmul", "vmax", "vmin", "vdiv"))
                name = self.line(f"pto.vmi.{word} {a}, {b} : {v}, {v} -> {v}")
            case 2:
                word = rng.choice(("vabs", "vneg", "vexp", "vrelu"))
                name = self.line(f"pto.vmi.{word} {a} : {v} -> {v}")
            case 3:
                word = rng.choice(("vadds", "vmuls", "vmaxs"))
                name = self.line(f"pto.vmi.{word} {a}, %f, {mask} : {v}, f32, {m} -> {v}")
            case 4:
                word, more = rng.choice((("vcmax", ""), ("vcmin", ""), ("vcadd", " {reassoc}")))
                one = self.line(f"pto.vmi.{word} {a}, {mask}{more} : {v}, {m} -> {self.one}")
                name = self.line(f"pto.vmi.vbrc {one} : {self.one} -> {v}")
            case 5:
                name = self.line(f"pto.vmi.vexpdif {a}, {b}, {mask} : {v}, {v}, {m} -> {v}")
            case _:
                gate = self.line(
                    f'pto.vmi.vcmp {a}, {b}, {mask} {{cmp = "olt"}} : {v}, {v}, {m} -> {m}'
                )
                self.masks.append(gate)
                name = self.line(f"pto.vmi.vsel {gate}, {a}, {b} : {m}, {v}, {v} -> {v}")
        self.vectors.append(name)

    def store(self) -> None:
        at, value = self.place(), self.rng.choice(self.vectors)
        match self.rng.randrange(4):
            case 0:
                half = self.line(
                    f'pto.vmi.vcvt {value} {{saturate = "SAT"}} : {self.v} -> {self.h}'
                )
                self.lines.append(f"pto.vmi.vstore {half}, %h[{at}] : {self.h}, {HP}")
            case 1:
                mask = self.rng.choice(self.masks)
                self.lines.append(
                    f"pto.vmi.vstore {value}, %z[{at}], {mask} : {self.v}, {P}, {self.m}"
                )
            case _:
                self.lines.append(f"pto.vmi.vstore {value}, %z[{at}] : {self.v}, {P}")


def logical_module(rng: Random) -> str:
    """Return a program of a loop of operations on logical vectors."""
    lanes = rng.choice((64, 128, 256, 96))
    body = _Logical(rng, lanes)
    for _ in range(rng.randint(1, 2)):
        body.load()
    for _ in range(rng.randint(1, 4)):
        body.compute()
    body.store()
    loop = "\n".join(["scf.for %i = %c0 to %n step %c1 {", *body.lines, "}"])
    masks = "\n".join(
        f"%{name} = pto.vmi.create_mask %{count} : index -> {body.m}"
        for name, count in (("all", "w"), ("some", "c8"), ("none", "c0"))
    )
    text = module(rng)
    begin, end = text.index("pto.vecscope {"), text.index('pto.set_flag["PIPE_V"')
    region = f"pto.vecscope {{\n%w = arith.constant {lanes} : index\n{masks}\n{loop}\n}}\n"
    return text[:begin] + region + text[end:]
