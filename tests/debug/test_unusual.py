"""What no example of the manual says: values without a text, conditions without a truth, windows with a
step, expressions that would fill the memory. Each is shown, or refused with one message."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptosim
from ptosim.debug import budget
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import rendered
from ptosim.debug.shell import Shell
from ptosim.ground.errors import UsageError
from ptosim.shell.main import main
from tests.debug.dap_client import Client
from tests.debug.helpers import LOOP, PROGRAMS, debug
from tests.fuzz.files import KERNEL
from tests.support import paths

EXECUTED = paths.TESTS / "fuzz" / "executed" / "a5.pto"
ARGS = {"x": np.arange(64.0, dtype=np.float32).reshape(8, 8), "y": np.zeros((8, 8), np.float32)}
HUGE = "2**30000"
UNEQUAL = "[[1],[1,2]]"


def at_the_store() -> Debugger:
    session = ptosim.load(KERNEL, filename="k.pto").debug({**ARGS, "s": 0.5}, timing=False)
    session.until("15")
    return session


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def shell(told) -> Shell:
    return Shell(
        at_the_store(),
        lambda parts: told.append(rendered(parts, 80, color=False).rstrip()),
        lambda: 80,
    )


@pytest.fixture(scope="module")
def session() -> Debugger:
    """One that no test moves."""
    return at_the_store()


# -- expressions --------------------------------------------------------------------------------------

TOO_LARGE = [
    "len([[0] * 4000000 for x in [0] * 64])",
    "np.bincount([2**28]) + 1",
    "np.bincount([1], minlength=2**28)",
    "np.histogram([1, 2], bins=2**27)[0]",
    "np.where(np.reshape([0] * 15000, (15000, 1)), [0] * 15000, 1).size",
    "np.isclose(np.reshape([0] * 15000, (15000, 1)), [0] * 15000).size",
    "np.ravel([0] * 15000).clip(np.reshape([0] * 15000, (15000, 1))).size",
    "(np.reshape([1] * 15000, (15000, 1)) @ np.reshape([1] * 15000, (1, 15000))).size",
    "np.reshape([1] * 15000, (15000, 1)).dot(np.reshape([1] * 15000, (1, 15000))).size",
    "(np.reshape([1] * 2**22, (2048, 2048)) @ np.reshape([1] * 2**22, (2048, 2048))).size",
    "np.concatenate([np.ravel([0] * 4000000)] * 40).size",
    "[0] * 4000000 + [0] * 4000000",
    "[[[0] * 1000] * 1000] * 1000",
    "np.ravel([[0] * 40000] * 40000)",
    "%b[[0] * 30000][:, [0] * 30000].size",
    "[np.sort(v) for v in [np.ravel([0] * 2000000)] * 1000]",
]
NO_NUMBERS = [
    '%b.astype("U5000000").size',
    '%b.astype("O")',
    '%b.astype(dtype="M8[s]")',
    '%b.view("V4")',
    '%b.view("i4,i4")',
    '%b.prod(dtype="O")',
    'np.ravel("abc")',
    'np.unique(b"abc")',
    "np.prod([2**60000] * 1000)",
    "%b * [2**70]",
    "np.max({1: 2})",
]
TOO_LONG = ["int('f' * 40000 * 100, 16)", "round(5, -10**9)", "%b.astype('i8')[7, 7] ** 10**9"]


@pytest.mark.parametrize("text", [*TOO_LARGE, *NO_NUMBERS, *TOO_LONG])
def test_an_expression_that_is_too_much(session, text):
    """It is refused before it takes the memory, or the time, that it asks for."""
    with pytest.raises(UsageError, match=r"too many|at most|numbers?\b|too large"):
        session.evaluate(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("any(v > 30 for v in %b.ravel())", True),
        ("sum(v for v in [1, 2])", 3),
        ("[v for v in (w + 1 for w in [1, 2]) if v > 2]", [3]),
        ("np.where(%b > 31, %b, 0).sum()", 31.5),
        ("np.clip(%b, None, 1).max()", 1),
        ("%b.clip(0, 1).max()", 1),
        ("(%b @ %b).shape", (8, 8)),
        ("%b.dot(%b[0]).shape", (8,)),
        ("np.matmul(%b, 2 * %b).shape", (8, 8)),
        ("(%b.reshape(2, 4, 8) @ %b).shape", (2, 4, 8)),
        ("np.bincount([1, 1, 3]).tolist()", [0, 2, 0, 1]),
        ("np.histogram(%b, bins=4)[0].tolist()", [16, 16, 16, 16]),
        ("np.concatenate([%b, %b], axis=0).shape", (16, 8)),
        ("np.sort(%b[0], kind='stable')[0]", 0),
        ("%b.sum(axis=0, dtype='f8').shape", (8,)),
        ("%b.astype(np.int8).view('u1')[0, 7]", 3),
        ("int('ff', 16) + round(2.5, 0)", 257),
        ("[1] + [2] == [1, 2]", True),
        ("%b.astype(int).dtype == int", True),
        ("%b[1:3, ::-2].shape", (2, 4)),
        ("%b[[1, 2], 3:].shape", (2, 5)),
        ("%b[%b > 30].size", 3),
        ("%b[..., None, 1].shape", (8, 1)),
        ("np.s_[1:2, 3][1:] if 0 else [1, 2, 3][-1:]", [3]),
        ("%b.astype(dtype=float).sum(dtype=int)", 992),
    ],
)
def test_what_is_computed(session, text, wanted):
    assert session.evaluate(text) == wanted


# -- commands -----------------------------------------------------------------------------------------

REFUSED = [
    (f"print {HUGE}", "cannot be written"),
    (f"print [{HUGE}]", "cannot be written"),
    ("python 10**5000", "cannot be written"),
    ("python type('A', (), {'__str__': lambda s: 1 / 0})()", "division by zero"),
    (f"break tmuls if {UNEQUAL}", "neither true nor false"),
    (f"watch %i and {UNEQUAL}", "neither true nor false"),
    (f"watch {HUGE} + %i", "cannot be written"),
    ("watch %b[99, 0]", "out of bounds"),
    ("watch outside abc %b", "`abc` is not a name"),
    ("watch gm x[99, 99]", "out of bounds"),
    ("why %b[1//0 for i in (1,2)) if 1 else (2]", "division"),
    ("last-write %b[1//0 for i in (1,2)) if 1 else (2]", "division"),
    (f"dump {UNEQUAL} q.npy", "no array of numbers"),
    ("dump None q.npy", "no array of numbers"),
    ("dump {1: 2} q.npy", "no array of numbers"),
    ("dump max q.npy", "no array of numbers"),
    ("dump np q.npy", "no array of numbers"),
    ('dump %b.astype("O") q.npy', "no type of numbers"),
    ("tile %b[::0]", "no index"),
]


@pytest.mark.parametrize(("line", "words"), REFUSED)
def test_a_line_that_is_refused(shell, told, tmp_path, monkeypatch, line, words):
    """With its reason; nothing is written, and the session goes on."""
    monkeypatch.chdir(tmp_path)
    went_well = shell.line(line)
    assert not went_well
    assert words in "\n".join(told)
    assert not list(tmp_path.iterdir())
    assert shell.line("reverse-step")
    assert shell.line("continue")


SHOWN = [
    ("print np.ravel(1j)[0]", "1j"),
    ("print %b.astype('c8')[0, 1] + 1j", "(0.5+1j)"),
    ('python np.str_("abc")', "abc"),
    ('python np.zeros((2, 2), "V4")', "2x2 |V4"),
    ('python np.zeros((2, 2), "M8[s]")[0, 0]', "1970-01-01"),
    ('python np.zeros(2, "i4,i4")', "(0, 0)"),
    ("print (n for n in [1, 2])", "[1, 2]"),
    ("tile %b[::-1, 3] heat", "7   @"),
    ("tile %b[::3, ::3] heat", "6   %%@"),
    ("tile %b[::-1, ::-2] heat", "7   @"),
]


@pytest.mark.parametrize(("line", "words"), SHOWN)
@pytest.mark.filterwarnings("error")
def test_a_value_that_is_shown(shell, told, line, words):
    assert shell.line(line), told
    assert words in "\n".join(told)


def test_lists_in_lists(shell, told):
    """However deep, and however often the same one."""
    for _ in range(2000):
        shell.session.variables["a"] = [shell.session.variables.get("a")]
    assert not shell.line("print $a")
    assert shell.line("set $b = [0, 1]")
    for _ in range(40):
        assert shell.line("set $b = [$b, $b]")
    assert not shell.line("print $b")
    assert told[-1] == "error: the value has more than 4,194,304 elements"
    assert not shell.line("print $b == $b + []")


def test_a_display_without_a_text(shell, told):
    """It says so at every stop, and the session goes on."""
    assert shell.line(f"set $a = {HUGE}")
    assert shell.line("display $a")
    assert shell.line("reverse-step")
    assert told[-1].startswith("1: $a = (the value cannot be written")


def test_steps_and_what_is_not_written():
    """The note is for the elements that are shown, whichever way."""
    from ptosim.debug.tables.tiles import tile

    session = ptosim.load(KERNEL, filename="k.pto").debug({**ARGS, "s": 0.5}, timing=False)
    session.until("13")
    assert "· not written" in tile(session, "%b[::-1, 0:2]", 80).notes


def test_conditions_have_a_clock(shell, told, monkeypatch):
    """Nothing in an expression repeats without a look at it, wherever the expression is."""
    monkeypatch.setattr(budget, "MOST_IN_ALL", 20_000)
    slow = "[0 for x in [0] * 9000 for y in [0] * 9000 if x]"
    for line in (
        f"break tmuls if {slow}",
        f"set $a = {slow}",
        f"tile %b[{slow}]",
        f"watch %i + {slow}",
    ):
        assert not shell.line(line)
    assert re.search("elements at most", told[0])


def test_a_watched_value_that_leaves_its_array():
    """It has no value then; the run goes on."""
    session = ptosim.load(KERNEL, filename="k.pto").debug({**ARGS, "s": 0.5}, timing=False)
    session.until("tmuls")
    session.watch("%b[%i + 4, 0]")
    while session.continue_().reason != "end":
        pass


# -- programs -----------------------------------------------------------------------------------------


def _executed(text: str) -> str:
    parts = re.split(r"^// -----\n", EXECUTED.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return next(part for part in parts if text in part)


def _debug(path, *words: str) -> int:
    commands = [w for word in words for w in ("-ex", word)]
    return main(["debug", str(path), "-nx", "--batch", *commands])


def test_a_buffer_of_packed_elements(capsys, monkeypatch):
    """Their bits are shown; an editor lists it with the others."""
    monkeypatch.setenv("PTOSIM_TRACEBACK", "1")
    program = paths.PROGRAMS / "quant" / "mxfp4_dn.pto"
    assert _debug(program, "continue", "diff", "tile %q", "why %q[0, 0]", "last-write %q") == 0
    assert "%q: !pto.f4E2M1x2 128x32 gm buffer 1:0x0..0xfff" in capsys.readouterr().out
    assert _debug(program, "quant %q", "lanes %q") == 2


def test_a_tile_that_leaves_its_space(tmp_path, capsys):
    """Its row says so, in JSON too."""
    path = tmp_path / "scaling.pto"
    path.write_text(
        _executed("%sb = pto.alloc_tile : !pto.tile_buf<loc=scaling, dtype=f8E4M3FN, rows=128")
    )
    words = ("--target", "a5", "--compat", "2026-04", "-ex", "stepi 5", "-ex", "tilesj")
    assert main(["debug", str(path), "-nx", "--batch", *words]) == 0
    assert "leaves its space (4096 bytes)" in capsys.readouterr().out


@pytest.mark.parametrize("bound", ["%c8", "%t"])
def test_arrays_of_threads(tmp_path, capsys, bound):
    """A pointer into one is shown as its line and its byte, of threads that part too."""
    text = _executed("%a = llvm.alloca %n8 x i32")
    if bound == "%t":
        text = text.replace("to %c8 step", "to %t step").replace("%a[%k]", "%a[%c0]")
    path = tmp_path / "private.pto"
    path.write_text(text)
    words = ("-ex", "continue", "-ex", "thread 3", "-ex", "warp 0")
    main(["debug", str(path), "-nx", "--batch", "--target", "a5", "--compat", "2026-08", *words])
    out = capsys.readouterr().out
    assert re.search(r"%q +!llvm.ptr +array of line \d+ \+ 0x", out)
    assert "warp 0 of 8 threads" in out


def test_effects_out_of_order():
    """The debugger has positions in program order alone, and says so."""
    with pytest.raises(UsageError, match="program order"):
        debug("loop", LOOP, commit="retire", timing=False)


# -- the protocol -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["%b[99, 0]", "%b[1.5]", "%i + 'a'", "gm x[99,99]", "outside abc %b", f"{HUGE} + %i"],
)
def test_data_that_cannot_be_watched(tmp_path, name):
    """The editor hears so, or the value counts as none; the run moves."""
    path = tmp_path / "k.pto"
    path.write_text(KERNEL)
    client = Client()
    try:
        client.start(path, timing=False, stopOnEntry=True)
        client.request("setDataBreakpoints", breakpoints=[{"dataId": name, "accessType": "write"}])
        client.request("configurationDone")
        client.event("stopped")
        client.request("next", threadId=1)
        client.event("stopped")
        client.request("continue", threadId=1)
        client.event("terminated")
    finally:
        client.leave()


@pytest.mark.parametrize(
    "point",
    [
        {"condition": UNEQUAL},
        {"condition": f"%i or {UNEQUAL}"},
        {"logMessage": f"{{{HUGE}}} and {{np.ravel('abc')[0]}}"},
    ],
)
def test_a_point_without_truth_or_text(tmp_path, point):
    path = tmp_path / "k.pto"
    path.write_text(KERNEL)
    client = Client()
    try:
        client.start(path, timing=False, stopOnEntry=True)
        at = {"source": {"path": str(path)}, "breakpoints": [{"line": 16, **point}]}
        client.request("setBreakpoints", **at)
        client.request("setFunctionBreakpoints", breakpoints=[{"name": "tstore", **point}])
        data = {"dataId": "%b", "accessType": "write", **point}
        data.pop("logMessage", None)
        client.request("setDataBreakpoints", breakpoints=[data])
        client.request("configurationDone")
        client.event("stopped")
        client.request("reverseContinue", threadId=1)
        client.event("stopped")
        client.request("threads")
    finally:
        client.leave()


def test_what_goes_wrong_after_an_answer(tmp_path, monkeypatch):
    """The editor hears that the run stands, and why; the server lives."""
    monkeypatch.setattr(Debugger, "next", lambda self: 1 / 0)
    client = Client()
    try:
        client.start(PROGRAMS / "loop.pto", stopOnEntry=True)
        client.request("configurationDone")
        client.event("stopped")
        client.request("next", threadId=1)
        assert "division by zero" in client.event("stopped")["text"]
        assert client.request("threads")["threads"]
    finally:
        client.leave()
