"""Loops of loads, operations and stores made at random, as kernels have them: one or several
buffers in turn, windows that move or stay, flags of which some may be missing, guards at single
rounds, remainders, loops in loops."""

from __future__ import annotations

from random import Random

TILE = "!pto.tile_buf<vec, 16x64xf32>"
PART = "!pto.partition_tensor_view<16x64xf32>"
ROWS, COLUMNS = 16384, 1024
VIEW = f"!pto.tensor_view<{ROWS}x{COLUMNS}xf32>"


class _Kernel:
    """The text of one kernel."""

    def __init__(self, rng: Random, targets: tuple[str, ...]) -> None:
        self.rng = rng
        self.targets = targets
        self.lines: list[str] = []
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append(text)

    def value(self, text: str) -> str:
        self._names += 1
        self.line(f"%v{self._names} = {text}")
        return f"%v{self._names}"

    def place(self, counter: str, step: int) -> str:
        """A row: one that moves with the round, stays, or comes again after some rounds."""
        rng = self.rng
        row = self.value(f"arith.muli {counter}, {self.constant(step)} : index")
        kind = rng.random()
        if kind < 0.15:
            return self.constant(16 * rng.randrange(4))
        if kind < 0.3:
            row = self.value(
                f"arith.remui {row}, {self.constant(rng.choice((48, 64, 512)))} : index"
            )
        if rng.random() < 0.3:
            more = self.constant(rng.choice((16, 32, 8, 128)))
            row = self.value(f"arith.addi {row}, {more} : index")
        return row

    def constant(self, number: int) -> str:
        return self.value(f"arith.constant {number} : index")

    def window(self, name: str, row: str, column: str) -> str:
        return self.value(
            f"pto.partition_view %{name}, offsets = [{row}, {column}], sizes = [%c16, %c64] : "
            f"{VIEW} -> {PART}"
        )

    def flag(self, word: str, pair: str, event: int) -> None:
        if self.rng.random() < self.kept:
            source, target = pair.split(">")
            self.line(f'pto.{word}_flag["PIPE_{source}", "PIPE_{target}", "EVENT_ID{event}"]')

    def stage(self, counter: str, buffer: int) -> None:
        """A load, an operation and a store on one of the buffers."""
        rng, step = self.rng, self.step
        if rng.random() < 0.75:
            row, column = self.place(counter, step), "%c0"
        else:
            at = self.value(f"arith.muli {counter}, %c64 : index")
            row, column = "%c0", self.value(f"arith.remui {at}, {self.constant(1024)} : index")
        source = self.window(rng.choice("xxxy"), row, column)
        target = self.window(rng.choice("zzzzzzx"), row, column)
        self.flag("wait", "V>MTE2", buffer)
        self.line(f"pto.tload ins({source} : {PART}) outs(%a{buffer} : {TILE})")
        self.flag("set", "MTE2>V", buffer)
        self.flag("wait", "MTE2>V", buffer)
        self.flag("wait", "MTE3>V", buffer)
        self.line(
            f"pto.tadd ins(%a{buffer}, %a{buffer} : {TILE}, {TILE}) outs(%b{buffer} : {TILE})"
        )
        self.flag("set", "V>MTE2", buffer)
        self.flag("set", "V>MTE3", buffer)
        self.flag("wait", "V>MTE3", buffer)
        self.line(f"pto.tstore ins(%b{buffer} : {TILE}) outs({target} : {PART})")
        self.flag("set", "MTE3>V", buffer)

    def round(self, counter: str, buffers: int, rounds: int) -> None:
        """One round, on one buffer or another."""
        rng = self.rng
        if rng.random() < 0.3:
            when = rng.choice((0, rounds - 1, rounds // 2, rounds + 7))
            self.when("eq", counter, self.constant(when), lambda: self.line(
                f"pto.tadd ins(%a0, %b0 : {TILE}, {TILE}) outs(%b0 : {TILE})"
            ))  # fmt: skip
        if buffers == 1:
            self.stage(counter, 0)
            return
        turn = self.value(f"arith.remui {counter}, {self.constant(buffers)} : index")
        for buffer in range(buffers):
            self.when(
                "eq", turn, self.constant(buffer), lambda b=buffer: self.stage(counter, b)
            )  # fmt: skip
        if rng.random() < 0.1:
            self.line("pto.barrier <PIPE_ALL>")

    def when(self, word: str, one: str, other: str, body) -> None:
        test = self.value(f"arith.cmpi {word}, {one}, {other} : index")
        self.line(f"scf.if {test} {{")
        body()
        self.line("}")

    def head(self, buffers: int) -> None:
        """Constants, views, buffers (of which two may share bytes), and flags for the first round."""
        rng = self.rng
        for name, size in (("c0", 0), ("c1", 1), ("c16", 16), ("c64", 64)):
            self.line(f"%{name} = arith.constant {size} : index")
        self.line(f"%rows = arith.constant {ROWS} : index")
        self.line(f"%columns = arith.constant {COLUMNS} : index")
        for name in "xyz":
            self.line(
                f"%{name} = pto.make_tensor_view %p{name}, shape = [%rows, %columns], "
                f"strides = [%columns, %c1] : {VIEW}"
            )
        for number in range(2 * buffers):
            address = number * 4096
            if address and rng.random() < 0.02:
                address -= 2048
            at = self.value(f"arith.constant {address} : i64")
            self.line(f"%{'ab'[number % 2]}{number // 2} = pto.alloc_tile addr = {at} : {TILE}")
        self.flags("set", buffers)

    def flags(self, word: str, buffers: int) -> None:
        for buffer in range(buffers):
            for pair in ("V>MTE2", "MTE3>V"):
                self.flag(word, pair, buffer)

    def loops(self, buffers: int, rounds: int) -> None:
        """One loop, which may be in another one of three rounds."""
        depth = 2 if self.rng.random() < 0.2 else 1
        if depth == 2:
            self.line(f"scf.for %j = %c0 to {self.constant(3)} step %c1 {{")
        self.line(f"scf.for %i = %c0 to {self.constant(rounds)} step %c1 {{")
        self.round("%i", buffers, rounds)
        self.lines += ["}"] * depth

    def text(self) -> str:
        rng = self.rng
        target = rng.choice(self.targets)
        buffers = rng.choice((1, 1, 1, 2, 2, 3, 4, 5))
        self.kept = rng.choice((1, 1, 1, 0.95))
        rounds = rng.choice((96, 150, 201, 255, 256, 300))
        self.step = rng.choice((16, 16, 16, 8, 32))
        self.head(buffers)
        self.loops(buffers, rounds)
        self.flags("wait", buffers)
        if rng.random() < 0.5:
            late = self.window(rng.choice("xz"), self.constant(16 * rng.randrange(rounds)), "%c0")
            self.line(f"pto.tload ins({late} : {PART}) outs(%a0 : {TILE})")
        body = "\n".join(f"    {line}" for line in self.lines)
        arguments = ", ".join(f"%p{n}: !pto.ptr<f32>" for n in "xyz")
        return (
            f'module attributes {{pto.target_arch = "{target}"}} {{\n'
            f"  func.func @kernel({arguments}) {{\n{body}\n    return\n  }}\n}}\n"
        )


def kernel(seed: int, targets: tuple[str, ...] = ("a5", "a2a3")) -> str:
    """Return the text of a kernel for one of these targets."""
    return _Kernel(Random(seed), targets).text()


def flag(source: str, target: str) -> str:
    """A flag that is set and waited for."""
    events = f'["PIPE_{source}", "PIPE_{target}", "EVENT_ID0"]'
    return f"pto.set_flag{events}\npto.wait_flag{events}\n"


def grid(rows: int, columns: int) -> str:
    """A sum of two arrays of 4096x4096, tile by tile."""
    tile, part = f"!pto.tile_buf<vec, {rows}x{columns}xf32>", f"{rows}x{columns}xf32>"
    part, view = f"!pto.partition_tensor_view<{part}", "!pto.tensor_view<4096x4096xf32>"
    numbers = sorted({0, 1, rows, columns, 4096})
    lines = [f"%c{number} = arith.constant {number} : index" for number in numbers]
    lines += [
        f"%v{n} = pto.make_tensor_view %{n}, shape = [%c4096, %c4096], strides = [%c4096, %c1] : "
        f"{view}"
        for n in "xyz"
    ]
    lines += [f"%{n} = pto.alloc_tile : {tile}" for n in "abc"]
    lines += [
        f"scf.for %i = %c0 to %c4096 step %c{rows} {{",
        f"scf.for %j = %c0 to %c4096 step %c{columns} {{",
    ]
    lines += [
        f"%p{n} = pto.partition_view %v{n}, offsets = [%i, %j], sizes = [%c{rows}, %c{columns}] : "
        f"{view} -> {part}"
        for n in "xyz"
    ]
    lines += [
        f"pto.tload ins(%px : {part}) outs(%a : {tile})",
        f"pto.tload ins(%py : {part}) outs(%b : {tile})", flag("MTE2", "V"),
        f"pto.tadd ins(%a, %b : {tile}, {tile}) outs(%c : {tile})", flag("V", "MTE3"),
        f"pto.tstore ins(%c : {tile}) outs(%pz : {part})", flag("MTE3", "V"), flag("V", "MTE2"),
        "}", "}", "return", "}", "}",
    ]  # fmt: skip
    arguments = ", ".join(f"%{n}: !pto.ptr<f32>" for n in "xyz")
    head = f'module attributes {{pto.target_arch = "a5"}} {{\nfunc.func @k({arguments}) {{\n'
    return head + "\n".join(lines) + "\n"
