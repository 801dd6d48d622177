"""The account of effects of every operation that is executed on a pipe, those on pointers too,
against what its function does to memory: in the example of its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.examples import example_of
from ptosim.ground.isa.rows import TARGETS, isa
from ptosim.ground.isa.schema import EXECUTED, dtypes
from ptosim.launch import launch
from ptosim.machine.pages import argument_dtype
from tests.support.perturb import Perturbed

pytestmark = pytest.mark.sampled(40, 600)


def cases() -> list[tuple[str, str]]:
    """Operations with an example that runs, and a target each."""
    found = []
    for name in isa().names():
        definition = isa().get(name)
        example = example_of(definition) if definition is not None else None
        if definition is None or example is None or example.not_run:
            continue
        having = [t for t in TARGETS if definition.status[t] in EXECUTED]
        found += [(name, t) for t in having if example.target in (None, t)]
    return found


def argument(arg: ptosim.Arg) -> object:
    if arg.kind == "scalar":
        return 1
    dtype = np.dtype(argument_dtype(dtypes()[arg.dtype]))
    return np.random.default_rng(41).integers(1, 100, 8192 * dtype.itemsize, np.uint8).view(dtype)


TILE = re.compile(r"!pto\.tile_buf<(\w+), (\d+)x(\d+)x([^,>]+)((?:, (?!valid)[^,>]*)*)>")


def shrunk(match: re.Match[str], rows: int, cols: int) -> str:
    """A type of tiles with so many valid rows and columns less than its shape."""
    loc, *shape, elem, rest = match.groups()
    valid = "x".join(
        str(max(int(n) - less, 1)) for n, less in zip(shape, (rows, cols), strict=True)
    )
    return f"!pto.tile_buf<{loc}, {'x'.join(shape)}x{elem}, valid={valid}{rest}>"


def odd(text: str) -> str:
    """A text whose tiles have one valid row and column less than their shape."""
    return TILE.sub(lambda match: shrunk(match, 1, 1), text)


def one_odd(text: str) -> Iterator[str]:
    """Texts in which the tiles of one type have a row, or columns, less that are valid."""
    for type_, match in {m[0]: m for m in TILE.finditer(text)}.items():
        yield from (text.replace(type_, shrunk(match, *less)) for less in ((1, 0), (0, 1), (1, 3)))


def looked_at(
    name: str, target: str, monkeypatch, change: Callable[[str], str] = str, most: int = 32
) -> list[Perturbed]:
    """What was seen of an operation in its example, whose text may be changed; of `most` elements
    whether they matter."""
    example = example_of(isa().get(name))
    watched: list[Perturbed] = []

    def attach(engine, *_, **_options):
        ops = frozenset([name] if engine.domain.has_contents else [])
        engine.monitor = Perturbed(engine.machine, ops, most=most)
        watched.append(engine.monitor)
        return engine.monitor

    program = ptosim.load(change(example.program), target=target, compat=example.compat)
    given = {
        a.name: argument(a) for a in program.signature() if a.kind in ("ptr", "memref", "scalar")
    }
    monkeypatch.setattr(launch, "attach", attach)
    limits = {"max_instructions": 20_000, "timing": False}
    if len(program.entries) > 1:  # the halves of a pair: either launches both
        limits["entry"] = program.entries[0]
    try:
        program.run({}, **limits)
    except ptosim.UsageError:
        program.run(given, **limits)
    return watched


OWN = {("pto.tmrgsort", "a2a3")}
"""Their scratch is bytes of the simulator's own: no operand has them."""

WITHOUT_EFFECT = {
    "what comes of it is no byte of a memory": "tprint comm.tnotify comm.twait tsync",
    "a hint, whose destination has no value": "tprefetch tprefetch_async",
    "offsets in memory say which elements are taken": "mgather tgatherb",
    "scales come in pairs, one of which k = 1 takes": "mad_mx_bias",
    "a window that cuts a box, and one of a map, counts as the tile": "textract tinsert timg2col",
    "the example takes a tile from itself": "tsubreluconv",
    "the example has both results, or all pieces, in one place": (
        "tinterleave mte_l0c_ub copy_gm_to_cbuf_multi_nd2nz copy_gm_to_cbuf_multi_dn2nz"
    ),
    "the example shifts every bit out": "ub.vshl ub.vshr",
}
"""Why an element of what these read need not matter: in the order of the reasons."""
ORDER = ("pto.comm.tnotify",)
"""What it writes is the cell of a signal, which is order and no data."""
MAY_BE_IDLE = {f"pto.{op}" for ops in WITHOUT_EFFECT.values() for op in ops.split()}


@pytest.mark.sampled(3, 140)
@pytest.mark.parametrize(("name", "target"), [c for c in cases() if c not in OWN])
def test_what_is_not_accounted_for_does_not_matter_and_the_rest_does(name, target, monkeypatch):
    """As it is, and with valid regions that are smaller than the tiles, where the rules allow
    that."""
    most = 0 if name in MAY_BE_IDLE else 32
    for change in (str, odd):
        try:
            watched = looked_at(name, target, monkeypatch, change, most)
        except PtosimError:  # indices that random data are not, shapes that must be whole
            watched = []
        monkeypatch.undo()
        assert [w.wrong for w in watched if w.wrong] == [] or name in ORDER
        idle = [told for w in watched for told in w.idle if "says it reads" in told]
        assert idle == []


@pytest.mark.sampled(3, 200)
@pytest.mark.parametrize(("name", "target"), [c for c in cases() if c not in OWN])
def test_operands_with_valid_regions_of_their_own(name, target, monkeypatch):
    """One operand has fewer valid rows or columns than the others: where the rules allow that, the
    account says how far the operation goes all the same."""
    for text in one_odd(example_of(isa().get(name)).program):
        try:
            watched = looked_at(name, target, monkeypatch, lambda _, text=text: text, 0)
        except PtosimError:
            watched = []
        monkeypatch.undo()
        assert [w.wrong for w in watched if w.wrong] == [] or name in ORDER


def test_most_of_what_takes_effect_on_a_pipe_is_looked_at(monkeypatch):
    """Of each family on pointers, too: transfers, the cube, the copies on chip."""
    names = ("pto.mte_gm_ub", "pto.mte_ub_gm", "pto.copy_gm_to_ubuf", "pto.mte_l1_l0a", "pto.mad")
    for name in names:
        *_, watched = looked_at(name, "a5", monkeypatch)  # those before it found sizes
        assert watched.seen == {name}
        monkeypatch.undo()
