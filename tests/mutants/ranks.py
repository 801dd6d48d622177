"""Programs of several ranks: transfers into each other's memory, and signals that count there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.mutants.levels import CONSTANTS, PART, SIZE, TILE, views
from tests.mutants.model import BETWEEN_RANKS, Bytes, Line, Model, Part, barrier, flag, span

RANKS = 3
WHOLE = span(0, SIZE)
VIEW, CELL = "!pto.tensor_view<8x64xf32>", "!pto.tensor_view<1xi32>"
HOPS = {"": 0, "n": 1, "p": RANKS - 1}
"""What stands after the name of an argument: its own, the next rank's, the previous one's."""
OTHER = {"": "n", "n": "p", "p": ""}
ARRAYS, CELLS = ("x", "y", "z", "yn", "yp"), tuple(c + hop for c in "ab" for hop in HOPS)


def _of(name: str, core: int) -> str:
    """The array that an argument is, on one rank."""
    return f"{name[0]}{(core + HOPS[name[1:]]) % RANKS}"


def _args(rank: int) -> dict[str, Any]:
    arrays = {name: _of(name, rank) for name in ARRAYS}
    cells = {name: f"cell {_of(name, rank)}" for name in CELLS}
    return {**arrays, **cells, "rank": rank}


def _staged(word: str, to: str, source: str, number: int) -> tuple[Line, Line]:
    """A copy through a tile: MTE2 fills it, MTE3 empties it, and each half waits for the other."""
    tile: Bytes = {"vec": span(number * SIZE, SIZE)}
    key = f"half {number}"
    fill = Line(
        f"{word}, first half", "MTE2",
        by_core=lambda core: ({f"={_of(source, core)}": WHOLE}, tile),
        gives=lambda core: ((key, core),),
    )  # fmt: skip
    empty = Line(
        f"{word}, second half", "MTE3",
        by_core=lambda core: (tile, {f"={_of(to, core)}": WHOLE}),
        takes=lambda core: ((key, core),),
    )  # fmt: skip
    return fill, empty


def copy(word: str, to: str, source: str, number: int) -> Line:
    """`tput` or `tget` from one window to another, through a tile of its own."""
    types = f"{VIEW}, {VIEW}, {TILE}"
    return Line(
        f"pto.comm.{word}(%v{to}, %v{source}, buf(%t{number}) : {types})", "MTE3",
        kinds=("drop", "up", "down", "retarget"),
        toward=lambda: copy(word, *_turned(to, source), number),
        halves=_staged(word, to, source, number),
    )  # fmt: skip


def _turned(to: str, source: str) -> tuple[str, str]:
    """The window of `y` among the two, of another rank."""
    if to[0] == "y":
        return f"y{OTHER[to[1:]]}", source
    return to, f"y{OTHER[source[1:]]}"


def notify(cell: str) -> Line:
    """One more for a signal."""
    return Line(
        f"pto.comm.tnotify(%v{cell}, %i1 : {CELL}, i32) {{notifyOp = #pto<notify_op atomic_add>}}",
        sync_by_core=lambda core: ("notify", _of(cell, core), 1),
        again=lambda _: notify(("b" if cell[0] == "a" else "a") + cell[1:]),
        toward=lambda: notify(cell[0] + OTHER[cell[1:]]),
        kinds=BETWEEN_RANKS,
    )


def wait(cell: str, least: int) -> Line:
    """Wait until a signal is so large."""
    return Line(
        f"pto.comm.twait(%v{cell}, %i{least} : {CELL}, i32) {{cmp = #pto<wait_cmp ge>}}",
        sync_by_core=lambda core: ("await", _of(cell, core), least),
        again=lambda _: wait(cell, 3 - least),
        toward=lambda: wait(cell[0] + OTHER[cell[1:]], least),
        kinds=BETWEEN_RANKS,
    )


def _load(name: str, number: int) -> Line:
    tile: Bytes = {"vec": span(number * SIZE, SIZE)}
    return Line(
        f"pto.tload ins(%p{name} : {PART}) outs(%t{number} : {TILE})", "MTE2",
        by_core=lambda core: ({f"={_of(name, core)}": WHOLE}, tile),
    )  # fmt: skip


def _store(name: str, number: int) -> Line:
    tile: Bytes = {"vec": span(number * SIZE, SIZE)}
    return Line(
        f"pto.tstore ins(%t{number} : {TILE}) outs(%p{name} : {PART})", "MTE3",
        by_core=lambda core: (tile, {f"={_of(name, core)}": WHOLE}),
    )  # fmt: skip


def _fill(number: int) -> Line:
    text = f"pto.texpands ins(%one : f32) outs(%t{number} : {TILE})"
    return Line(text, "V", {}, {"vec": span(number * SIZE, SIZE)})


def _flag(source: str, to: str, number: int = 0) -> tuple[Line, Line]:
    return flag("set", source, to, number), flag("wait", source, to, number)


def puts() -> tuple[Part, ...]:
    """Each rank writes to the next one, which reads it and says that it may be written again."""
    lines = (
        copy("tput", "yn", "x", 0), notify("an"), wait("a", 1),
        _load("y", 1), *_flag("MTE2", "S"), notify("bp"), wait("b", 1),
        copy("tput", "yn", "x", 2), notify("an"), wait("a", 2), _load("y", 3),
    )  # fmt: skip
    return (Part(tuple(range(RANKS)), lines),)


def gets() -> tuple[Part, ...]:
    """Each rank reads from the next one what that has stored, and says when it may store again."""
    lines = (
        _fill(0), *_flag("V", "MTE3"), _store("y", 0), notify("ap"), wait("a", 1),
        copy("tget", "z", "yn", 1), barrier("ALL"), notify("bn"), wait("b", 1), _store("y", 0),
    )  # fmt: skip
    return (Part(tuple(range(RANKS)), lines),)


def gathered() -> tuple[Part, ...]:
    """Rank 0 waits for both others, of whom one writes to it and one is read by it."""
    zero = (wait("a", 2), _load("y", 1), copy("tget", "z", "yn", 2), *_flag("MTE3", "S"),
            notify("bn"), notify("bp"))  # fmt: skip
    one = (
        _fill(0),
        *_flag("V", "MTE3"),
        _store("y", 0),
        notify("ap"),
        wait("b", 1),
        _store("y", 0),
    )
    two = (copy("tput", "yn", "x", 0), notify("an"), wait("b", 1), copy("tput", "yn", "x", 1))
    return Part((0,), zero), Part((1,), one), Part((2,), two)


def _around(parts: Sequence[Part], target: str) -> Callable[[Sequence[str]], str]:
    pointers = [*(f"%{n}: !pto.ptr<f32>" for n in ARRAYS), *(f"%{n}: !pto.ptr<i32>" for n in CELLS)]
    cells = "\n".join(
        f"%v{n} = pto.make_tensor_view %{n}, shape = [%c1], strides = [%c1] : {CELL}" for n in CELLS
    )
    tiles = "\n".join(
        f"%at{n} = arith.constant {n * SIZE} : i64\n%t{n} = pto.alloc_tile addr = %at{n} : {TILE}"
        for n in range(4)
    )

    def text(bodies: Sequence[str]) -> str:
        own = bodies[0] if len(parts) == 1 else "\n".join(
            f"%r{n} = arith.constant {n} : index\n%is{n} = arith.cmpi eq, %rank, %r{n} : index\n"
            f"scf.if %is{n} {{\n{body}\n}}"
            for n, body in enumerate(bodies)
        )  # fmt: skip
        return f"""module attributes {{pto.target_arch = "{target}", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
func.func @k({", ".join(pointers)}, %rank: index) attributes {{pto.entry}} {{
{CONSTANTS}
%i1 = arith.constant 1 : i32
%i2 = arith.constant 2 : i32
%one = arith.constant 1.0 : f32
{views(ARRAYS)}
{cells}
{tiles}
{own}
return
}}
}}
"""

    return text


def ranks(seed: int, target: str) -> Model:
    """One of the programs, on three ranks."""
    made = (puts, gets, gathered)[seed % 3]
    parts = made()
    args = tuple(_args(rank) for rank in range(RANKS))
    return Model(made.__name__, target, parts, _around(parts, target), True, args)
