"""Communication between ranks by value against NumPy, and what its signals order."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim

PTR = {"f32": "!pto.ptr<f32>", "i32": "!pto.ptr<i32>", "f16": "!pto.ptr<f16>"}
INDEX = (0, 1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128, 256, 512, 1024)


def program(body: str, args: dict[str, str], *, types: str = "", target: str = "a5") -> str:
    """A kernel with pointers and scalars as arguments; `%cN` are indices, `%iN` i32."""
    listed = ", ".join(f"%{n}: {PTR.get(t, t)}" for n, t in args.items())
    constants = "\n".join(f"    %c{n} = arith.constant {n} : index" for n in INDEX)
    constants += "\n" + "\n".join(f"    %i{n} = arith.constant {n} : i32" for n in range(5))
    return (
        f'{types}\nmodule attributes {{"pto.target_arch" = "{target}"}} {{\n'
        f"  func.func @k({listed}) attributes {{pto.entry}} {{\n{constants}\n{body}\n    return\n  }}\n}}\n"
    )


def view(name: str, pointer: str, shape: tuple[int, ...], dtype: str = "f32") -> str:
    """A static contiguous view."""
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    dims = ", ".join(f"%c{d}" for d in shape)
    steps = ", ".join(f"%c{s}" for s in strides)
    kind = f"!pto.tensor_view<{'x'.join(map(str, shape))}x{dtype}>"
    return f"    {name} = pto.make_tensor_view {pointer}, shape = [{dims}], strides = [{steps}] : {kind}"


def kind(shape: tuple[int, ...], dtype: str = "f32") -> str:
    return f"!pto.tensor_view<{'x'.join(map(str, shape))}x{dtype}>"


def codes(result: ptosim.Result) -> set[str]:
    return {f.code for f in result.findings}


def races(result: ptosim.Result) -> list[str]:
    return [f.message for f in result.findings if f.code.startswith("PTO52")]


# -- copies ----------------------------------------------------------------------------------------

SHAPE = (2, 8, 16)


def copy_text(op: str, tile: str, attrs: str = "", valid: str = "") -> str:
    body = "\n".join(
        [
            view("%d", "%dst", SHAPE),
            view("%s", "%src", SHAPE),
            f"    %t = pto.alloc_tile {valid}: {tile}",
            f"    pto.comm.{op}(%d, %s, buf(%t) : {kind(SHAPE)}, {kind(SHAPE)}, {tile}) {attrs}",
        ]
    )
    return program(body, {"dst": "f32", "src": "f32", "n": "index"})


@pytest.mark.parametrize("op", ["tput", "tget"])
@pytest.mark.parametrize(
    ("rows", "cols", "n"), [(8, 16, 8), (4, 16, 4), (2, 8, 2), (8, 8, 1), (16, 16, 16)]
)
def test_a_copy_does_not_depend_on_its_chunks(op, rows, cols, n):
    """One tile for all, several chunks, a tile that is larger than the view."""
    rng = np.random.default_rng(1)
    src = rng.standard_normal(SHAPE).astype(np.float32)
    text = copy_text(op, f"!pto.tile_buf<vec, {rows}x{cols}xf32>")
    out = ptosim.load(text).run({"dst": np.zeros(SHAPE, np.float32), "src": src, "n": n})
    np.testing.assert_array_equal(out.outputs["dst"].reshape(SHAPE), src)


def test_chunks_that_do_not_divide():
    """A valid extent in the type divides what it cuts; one that the run decides need not."""
    args = {"dst": np.zeros(SHAPE, np.float32), "src": np.ones(SHAPE, np.float32), "n": 3}
    with pytest.raises(ptosim.Trap, match="must be divisible by tile ValidRow"):
        ptosim.load(copy_text("tput", "!pto.tile_buf<vec, 3x16xf32>")).run(args)
    with pytest.raises(ptosim.Trap, match="must be divisible by tile ValidCol"):
        ptosim.load(copy_text("tput", "!pto.tile_buf<vec, 4x16xf32, valid=4x12>")).run(args)
    tile = "!pto.tile_buf<vec, 8x16xf32, valid=?x16>"
    free = ptosim.load(copy_text("tput", tile, valid="valid_row = %n ")).run(args)
    np.testing.assert_array_equal(free.outputs["dst"], args["src"])
    with pytest.raises(ptosim.Trap, match="holds nothing"):
        ptosim.load(copy_text("tput", tile, valid="valid_row = %n ")).run({**args, "n": 0})


def test_a_put_adds_in_the_element_type():
    src = np.array([1e8, 1, -0.0, np.inf] * 64, np.float32).reshape(SHAPE)
    dst = np.array([1, 1e-9, -0.0, -np.inf] * 64, np.float32).reshape(SHAPE)
    attrs = "{atomicType = #pto<atomic_type atomic_add>}"
    text = copy_text("tput", "!pto.tile_buf<vec, 8x16xf32>", attrs)
    out = ptosim.load(text).run({"dst": dst, "src": src, "n": 1}).outputs["dst"]
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out.reshape(SHAPE), dst + src)


# -- signals ---------------------------------------------------------------------------------------

S4 = kind((4,), "i32")
S1 = kind((1,), "i32")


@pytest.mark.parametrize(
    ("word", "passes"),
    [("eq", [2] * 4), ("ne", [1, 3, -1, 0]), ("gt", [3, 4, 5, 2**31 - 1]), ("ge", [2, 3, 2, 9]),
     ("lt", [1, 0, -1, -(2**31)]), ("le", [2, 1, 2, -5])],
)  # fmt: skip
def test_a_wait_asks_every_element(word, passes):
    """Signed i32; one element that does not compare true holds the core for ever."""
    body = view("%s", "%sig", (4,), "i32")
    body += f"\n    pto.comm.twait(%s, %i2 : {S4}, i32) {{cmp = #pto<wait_cmp {word}>}}"
    loaded = ptosim.load(program(body, {"sig": "i32"}))
    given = np.array(passes, np.int32)
    loaded.run({"sig": given})
    fails = {"eq": 1, "ne": 2, "gt": 2, "ge": 1, "lt": 2, "le": 3}[word]
    for at in range(4):
        wrong = given.copy()
        wrong[at] = fails
        with pytest.raises(ptosim.Trap, match="deadlock"):
            loaded.run({"sig": wrong})


def test_only_the_first_signal_of_a_view_is_set():
    lines = [view("%s", "%sig", (4,), "i32")]
    lines += [f"    pto.comm.tnotify(%s, %i{n} : {S4}, i32) {{notifyOp = #pto<notify_op {w}>}}"
              for n, w in ((3, "set"), (2, "atomic_add"), (4, "atomic_add"))]  # fmt: skip
    out = ptosim.load(program("\n".join(lines), {"sig": "i32"})).run({"sig": np.ones(4, np.int32)})
    assert out.outputs["sig"].tolist() == [9, 1, 1, 1]


def exchange(after: str, notify: str, wait: str, reader: str) -> str:
    """Block 1 stores a tile to %x and tells; block 0 waits and loads it."""
    tile = "!pto.tile_buf<vec, 8x16xf32>"
    body = f"""
{view("%v", "%x", (8, 16))}
{view("%w", "%y", (8, 16))}
{view("%s", "%sig", (1,), "i32")}
    %b = pto.get_block_idx
    %k = arith.index_cast %b : i64 to index
    %t = pto.alloc_tile : {tile}
    %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c16] : {kind((8, 16))} -> !pto.partition_tensor_view<8x16xf32>
    %q = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c8, %c16] : {kind((8, 16))} -> !pto.partition_tensor_view<8x16xf32>
    %is0 = arith.cmpi eq, %k, %c0 : index
    scf.if %is0 {{
{wait}
{reader}
    }} else {{
      pto.tload ins(%q : !pto.partition_tensor_view<8x16xf32>) outs(%t : {tile})
      pto.set_flag[#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_MTE3>, #pto.event<EVENT_ID0>]
      pto.wait_flag[#pto.pipe<PIPE_MTE2>, #pto.pipe<PIPE_MTE3>, #pto.event<EVENT_ID0>]
      pto.tstore ins(%t : {tile}) outs(%p : !pto.partition_tensor_view<8x16xf32>)
{notify}
{after}
    }}"""
    return program(body, {"x": "f32", "y": "f32", "sig": "i32"})


LOAD = "      pto.tload ins(%p : !pto.partition_tensor_view<8x16xf32>) outs(%t : !pto.tile_buf<vec, 8x16xf32>)"
NOTIFY = f"      pto.comm.tnotify(%s, %i1 : {S1}, i32) {{notifyOp = #pto<notify_op atomic_add>}}"
STORE = "      pto.tstore ins(%t : !pto.tile_buf<vec, 8x16xf32>) outs(%p : !pto.partition_tensor_view<8x16xf32>)"


def wait_for(number: int) -> str:
    return f"      pto.comm.twait(%s, %i{number} : {S1}, i32) {{cmp = #pto<wait_cmp ge>}}"


def exchanged(text: str, **more) -> ptosim.Result:
    data = np.ones((8, 16), np.float32)
    args = {"x": data * 0, "y": data, "sig": np.zeros(1, np.int32), **more}
    return ptosim.load(text, sync="manual").run(args, block_num=2)


def test_a_signal_orders_a_load_after_a_store():
    assert races(exchanged(exchange("", NOTIFY, wait_for(1), LOAD))) == []


def test_without_the_wait_the_load_is_stale():
    assert races(exchanged(exchange("", NOTIFY, "", LOAD)))


def test_without_the_notification_nobody_goes_on():
    with pytest.raises(ptosim.Trap, match="deadlock"):
        exchanged(exchange("", "", wait_for(1), LOAD))


def test_a_notification_before_the_store_is_a_race():
    """It publishes what was stored before it, not what comes after."""
    text = exchange("", NOTIFY, wait_for(1), LOAD)
    lines = text.split("\n")
    store = next(i for i, line in enumerate(lines) if "pto.tstore" in line)
    notify = next(i for i, line in enumerate(lines) if "tnotify" in line)
    lines[store], lines[notify] = lines[notify], lines[store]
    assert races(exchanged("\n".join(lines)))


def test_a_credit_used_twice_is_a_race():
    """A wait that the first notification satisfies says nothing of what came before the second."""
    again = f"{STORE}\n{NOTIFY}"
    assert races(exchanged(exchange(again, NOTIFY, wait_for(1), LOAD)))
    assert races(exchanged(exchange(again, NOTIFY, wait_for(2), LOAD))) == []
    twice = f"{wait_for(1)}\n{LOAD}\n{wait_for(1)}"
    assert races(exchanged(exchange(again, NOTIFY, twice, LOAD)))


def test_a_signal_that_nobody_initialised():
    text = exchange("", NOTIFY, wait_for(1), LOAD)
    data = np.ones((8, 16), np.float32)
    result = ptosim.load(text, sync="manual").run({"x": data * 0, "y": data}, block_num=2)
    assert "PTO5042" in codes(result)
    assert "PTO5042" not in codes(exchanged(text))


def test_a_notification_says_nothing_of_loads():
    """What was loaded before it may be overwritten while it is still read; a fence orders that."""
    fence = "      pto.fence.barrier_all #pto.fence_scope<gm>\n"
    for text, is_race in (
        (exchange("", f"{LOAD}\n{NOTIFY}", wait_for(1), STORE), True),
        (exchange("", f"{LOAD}\n{fence}{NOTIFY}", wait_for(1), STORE), False),
    ):
        lines = text.split("\n")
        lines = [line for line in lines if "%q :" not in line or "partition_view %w" in line]
        store = [i for i, line in enumerate(lines) if "pto.tstore" in line][-1]
        del lines[store]
        assert bool(races(exchanged("\n".join(lines)))) == is_race


def test_a_question_in_a_loop_ends():
    """A core that asks gives way to the one that answers, whichever comes first."""
    for asker in (0, 1):
        body = f"""
{view("%s", "%sig", (1,), "i32")}
    %b = pto.get_block_idx
    %k = arith.index_cast %b : i64 to index
    %asks = arith.cmpi eq, %k, %c{asker} : index
    scf.if %asks {{
      scf.while : () -> () {{
        %found = pto.comm.ttest(%s, %i1 : {S1}, i32) {{cmp = #pto<wait_cmp eq>}} -> i1
        %true = arith.constant true
        %more = arith.xori %found, %true : i1
        scf.condition(%more)
      }} do {{
        scf.yield
      }}
    }} else {{
      pto.comm.tnotify(%s, %i1 : {S1}, i32) {{notifyOp = #pto<notify_op set>}}
    }}"""
        loaded = ptosim.load(program(body, {"sig": "i32"}))
        result = loaded.run({"sig": np.zeros(1, np.int32)}, block_num=2, max_instructions=10_000)
        assert result.outputs["sig"].tolist() == [1]


def test_a_wait_takes_as_long_as_what_it_waits_for():
    """The put of block 1 is over before the wait of block 0 ends."""
    tile = "!pto.tile_buf<vec, 8x16xf32>"
    put = f"      pto.comm.tput(%v, %w, buf(%t) : {kind((8, 16))}, {kind((8, 16))}, {tile})\n"
    waits = exchanged(exchange("", put + NOTIFY, wait_for(1), put)).cycles
    alone = exchanged(exchange("", put + NOTIFY, "", "")).cycles
    assert waits is not None
    assert alone is not None
    assert waits > 1.9 * alone


# -- collectives -----------------------------------------------------------------------------------

RANKS = 3
H, W = 4, 16


def collective(line: str, root: str) -> str:
    """Rank `root` executes; every rank's part is an argument of each."""
    views = [view(f"%g{r}", f"%part{r}", (H, W)) for r in range(RANKS)]
    body = "\n".join(
        [
            *views,
            view("%w", "%whole", (3 * H + 4, W)).replace(f"%c{3 * H + 4}", "%c16"),
            view("%m", "%one", (H, W)),
            "    %t = pto.alloc_tile : !T",
            "    %u = pto.alloc_tile : !T",
            f"    %is = arith.cmpi eq, %rank, %c{root} : index",
            "    scf.if %is {",
            line,
            "    }",
        ]
    )
    args = {f"part{r}": "f32" for r in range(RANKS)} | {
        "whole": "f32",
        "one": "f32",
        "rank": "index",
    }
    return program(body, args, types="!T = !pto.tile_buf<vec, 2x16xf32>")


GROUP = "group(" + ", ".join(f"%g{r}" for r in range(RANKS)) + ")"
M, WHOLE = kind((H, W)), kind((16, W))
MEMBERS = ", ".join([M] * RANKS)


def run_collective(line: str, root: int, parts, whole, one):
    shared = {f"part{r}": parts[r] for r in range(RANKS)} | {"whole": whole, "one": one}
    args = [{**shared, "rank": r} for r in range(RANKS)]
    return ptosim.load(collective(line, str(root))).run(args, ranks=RANKS)


def data(seed: int = 5) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal((H, W)).astype(np.float32) for _ in range(RANKS)]
    whole = rng.standard_normal((16, W)).astype(np.float32)
    return parts, whole, rng.standard_normal((H, W)).astype(np.float32)


def test_broadcast():
    parts, whole, one = data()
    line = f"      pto.comm.tbroadcast(%m, recv(%t, %u), {GROUP} : {M}, !T, !T, {MEMBERS}) {{root = 1 : i32}}"
    result = run_collective(line, 1, parts, whole, one)
    for r in range(RANKS):
        np.testing.assert_array_equal(result.outputs[f"part{r}@0"], one)


def test_gather():
    parts, whole, one = data()
    line = (
        f"      pto.comm.tgather(%w, recv(%t), {GROUP} : {WHOLE}, !T, {MEMBERS}) {{root = 0 : i32}}"
    )
    got = run_collective(line, 0, parts, whole, one).outputs["whole@0"]
    np.testing.assert_array_equal(got[: 3 * H], np.concatenate(parts))
    np.testing.assert_array_equal(got[3 * H :], whole[3 * H :])


def test_scatter():
    parts, whole, one = data()
    line = f"      pto.comm.tscatter(%w, recv(%t), {GROUP} : {WHOLE}, !T, {MEMBERS}) {{root = 2 : i32}}"
    result = run_collective(line, 2, parts, whole, one)
    for r in range(RANKS):
        np.testing.assert_array_equal(result.outputs[f"part{r}@0"], whole[r * H : (r + 1) * H])


@pytest.mark.parametrize("root", range(RANKS))
@pytest.mark.parametrize("word", ["sum", "max", "min"])
def test_reduce(word, root):
    """The root's tensor first, then the others in their order, rounded after each step."""
    parts, whole, one = data()
    for n, value in enumerate((1e8, 1.0, -1e8)):
        parts[n][0, 0] = value
    attrs = f"{{reduceOp = #pto<reduce_op {word}>, root = {root} : i32}}"
    line = f"      pto.comm.treduce(%m, %t, recv(%u), {GROUP} : {M}, !T, !T, {MEMBERS}) {attrs}"
    got = run_collective(line, root, parts, whole, one).outputs["one@0"]
    combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[word]
    expected = parts[root]
    for r in (r for r in range(RANKS) if r != root):
        expected = combine(expected, parts[r])
    np.testing.assert_array_equal(got, expected)


def test_members_that_do_not_fit():
    parts, whole, one = data()
    line = f"      pto.comm.tgather(%m, recv(%t), {GROUP} : {M}, !T, {MEMBERS}) {{root = 0 : i32}}"
    with pytest.raises(ptosim.Trap, match="do not fit into 4 rows"):
        run_collective(line, 0, parts, whole, one)


# -- asynchronous transfers and prefetches ---------------------------------------------------------


@pytest.mark.parametrize("op", ["tput_async", "tget_async"])
def test_an_asynchronous_copy_is_there_after_its_event(op):
    line = (1, 64)
    body = "\n".join(
        [
            view("%d", "%dst", line),
            view("%s", "%src", line),
            "    %t = pto.alloc_tile : !pto.tile_buf<vec, 1x32xui8>",
            "    %z = pto.comm.build_async_session(%t, %ws : !pto.tile_buf<vec, 1x32xui8>, !pto.ptr<i8>) {sync_id = 1} -> !pto.async_session",
            f"    %e = pto.comm.{op}(%d, %s, %z : {kind(line)}, {kind(line)}, !pto.async_session) -> !pto.async_event",
            "    %c = pto.make_prefetch_async_context(%ws : !pto.ptr<i8>) -> !pto.prefetch_async_context",
            f"    %f = pto.tprefetch_async(%s, %c : {kind(line)}, !pto.prefetch_async_context) -> !pto.async_event",
            "    %y = pto.get_prefetch_async_session %c : !pto.prefetch_async_context -> !pto.async_session",
            "    %ok = pto.comm.wait_async_event(%e, %z : !pto.async_event, !pto.async_session) -> i1",
            "    %in = pto.comm.wait_async_event(%f, %y : !pto.async_event, !pto.async_session) -> i1",
            "    %too = pto.comm.test_async_event(%e, %z : !pto.async_event, !pto.async_session) -> i1",
            "    %both = arith.andi %ok, %too : i1",
            "    %n = arith.extui %both : i1 to i32",
            "    pto.store_scalar %n, %done[%c0] : !pto.ptr<i32>, i32",
        ]
    )
    args = {"dst": "f32", "src": "f32", "ws": "!pto.ptr<i8>", "done": "i32"}
    src = np.arange(64, dtype=np.float32)
    given = {"dst": src * 0, "src": src, "ws": np.zeros(64, np.int8), "done": np.zeros(1, np.int32)}
    result = ptosim.load(program(body, args)).run(given)
    np.testing.assert_array_equal(result.outputs["dst"], src)
    assert result.outputs["done"].tolist() == [1]


# -- barriers over the cores of a launch -----------------------------------------------------------

SOFT = """
    %b = pto.get_block_idx
    %core = arith.index_cast %b : i64 to index
    %k = arith.muli %core, %c16 : index
    pto.store_scalar %i3, %x[%k] : !pto.ptr<i32>, i32
    pto.cmo.cacheinvalid all #pto.address_space<gm>
    pto.syncall(%ws : !pto.ptr<i32>) mode = #pto.sync_all_mode<soft>, core_type = #pto.sync_core_type<KIND>
    %n = arith.xori %k, %c16 : index
    %v = pto.load_scalar %x[%n] : !pto.ptr<i32> -> i32
    pto.store_scalar %v, %y[%k] : !pto.ptr<i32>, i32"""


def barrier(text: str, ws: int = 0) -> ptosim.Result:
    # a word a core, 64 bytes apart: scalar stores of two cores to one line lose words (PTO5250)
    args = {"x": np.zeros(32, np.int32), "y": np.zeros(32, np.int32)}
    given = {**args, "ws": np.full(16, ws, np.int32)}
    listed = {"x": "i32", "y": "i32", "ws": "i32"}
    return ptosim.load(program(text, listed), sync="manual").run(given, block_num=2)


def test_a_soft_barrier_counts_in_its_workspace():
    result = barrier(SOFT.replace("KIND", "mix"))
    assert result.outputs["y"][::16].tolist() == [3, 3]
    assert result.outputs["ws"][0] == 2
    assert "PTO5041" not in codes(result)
    assert races(result) == []
    assert "PTO5041" in codes(barrier(SOFT.replace("KIND", "mix"), ws=5))


@pytest.mark.parametrize(("place", "works"), [(15, True), (16, False), (-1, False), (2**61, False)])
def test_the_workspace_of_a_soft_barrier_is_in_its_buffer(place, works):
    moved = f"""
    %at = arith.constant {place} : index
    %w = pto.addptr %ws, %at : !pto.ptr<i32> -> !pto.ptr<i32>"""
    text = moved + SOFT.replace("KIND", "mix").replace("(%ws", "(%w")
    if works:
        assert barrier(text).outputs["ws"].tolist() == [0] * 15 + [2]
        return
    with pytest.raises(ptosim.Trap, match=r"PTO6001.*counts in bytes"):
        barrier(text)


def test_a_word_that_is_half_outside_of_its_buffer_is_no_workspace():
    text = """
    %p = pto.castptr %ws : !pto.ptr<i8> -> !pto.ptr<i32>
    %q = pto.addptr %p, %c1 : !pto.ptr<i32> -> !pto.ptr<i32>
    pto.syncall(%q : !pto.ptr<i32>) mode = #pto.sync_all_mode<soft>, core_type = #pto.sync_core_type<mix>"""
    with pytest.raises(ptosim.Trap, match=r"PTO6001.*\[4, 8\) of `ws`, which has 6"):
        ptosim.load(program(text, {"ws": "!pto.ptr<i8>"})).run({"ws": np.zeros(6, np.int8)})


def test_a_hard_barrier_has_no_workspace():
    text = (
        SOFT.replace("(%ws : !pto.ptr<i32>)", "()").replace("soft", "hard").replace("KIND", "mix")
    )
    result = barrier(text)
    assert result.outputs["y"][::16].tolist() == [3, 3]
    assert result.outputs["ws"][0] == 0


def test_a_barrier_for_more_cores_than_there_are():
    with pytest.raises(ptosim.Trap, match="waits for 4 cores"):
        barrier(
            SOFT.replace("KIND", "mix").replace(
                "%ws : !pto.ptr<i32>", "%ws, %i4 : !pto.ptr<i32>, i32"
            )
        )
