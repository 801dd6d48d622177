"""Changes that mean nothing change nothing: values and verdicts stay when values are renamed, the text
is printed anew, a loop is split, independent operations change places, tiles move without overlap,
operations are written as vector instructions, or flags are inserted.

The verdict is what `check` finds: the codes of errors and warnings, as often as each is there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.fix import repair
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.launch.array_files import parse_spec
from ptosim.launch.description import Sidecar, sidecar_of
from ptosim.launch.sources import source_path
from ptosim.ops.lower.program import expand
from tests.fuzz.generated import generated
from tests.support.shipped import on_one_device

X = np.random.default_rng(5).standard_normal(1024).astype(np.float32)
ARGS = {"x": X, "y": np.zeros(1024, np.float32)}
Change = Callable[[str, Random], str | None]
Result = tuple[Counter, dict[str, bytes]]


def result_of(text: str, target: str, args: dict, beside: Sidecar | None = None) -> Result:
    """The verdict on a program, and what it computes."""
    options = beside.options if beside is not None else {}
    how = {"target": target, "profile": options.get("profile", "hw")}
    level = options.get("level")
    found = ptosim.check(text, level=level, entry=options.get("entry"), args=args, **how)
    codes = Counter(d.code for d in found if d.severity.word != "note")
    keep = {k: options[k] for k in ("entry", "block_num", "seed") if k in options}
    result = ptosim.load(text, level=level, **how).run(args, timing=False, **keep)
    return codes, {name: array.tobytes() for name, array in result.outputs.items()}


# -- changes ---------------------------------------------------------------------------------------


def renamed(text: str, rng: Random) -> str:
    """Other names for all values but the arguments of functions, which the caller knows."""
    known = set(
        re.findall(r"%([\w$.\-]+)\s*:\s*!?\w", "".join(re.findall(r"func\.func[^{]*", text)))
    )
    words = set(re.findall(r"%([A-Za-z_][\w$.\-]*|\d+)", text)) - known
    names = {word: f"v{number}_" for number, word in enumerate(sorted(words))}
    return re.sub(r"%([A-Za-z_][\w$.\-]*|\d+)", lambda m: f"%{names.get(m[1], m[1])}", text)


def printed(text: str, rng: Random) -> str:
    """The canonical form, with other blanks."""
    lines = print_module(parse(Source("k", text), Sink())).split("\n")
    return "\n\n".join(f"{' ' * rng.randrange(9)}{line.strip()}" for line in lines)


LOOP = re.compile(
    r"^( *)scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+) \{\n(.*?)^\1\}\n", re.M | re.S
)


def split(text: str, rng: Random) -> str | None:
    """A loop without carried values as one of its first round and one of the others."""
    text = print_module(parse(Source("k", text), Sink()))
    found = LOOP.search(text)
    if found is None:
        return None
    indent, i, low, high, step, body = found.groups()
    if re.search(r"alloc_tile|func\.|tassign|_pipe", body):
        return None
    middle = f"{indent}%split_at = arith.addi {low}, {step} : index\n"
    first = f"{indent}scf.for {i} = {low} to %split_at step {step} {{\n{body}{indent}}}\n"
    other = f"{indent}scf.for {i} = %split_at to {high} step {step} {{\n{body}{indent}}}\n"
    return text[: found.start()] + middle + first + other + text[found.end() :]


OPERATION = re.compile(r"^pto\.(t\w+) ins\((.*?) : .*\) outs\((.*?) : .*\)$")
PURE = re.compile(
    r"^(%\w+) = (?:arith\.(?!div|rem|ceildiv|floordiv)\w+|math\.\w+"
    r"|pto\.(?:vmi\.)?v(?:add|sub|mul|max|min|abs|neg|exp|ln|sqrt|relu|and|or|xor|not|dup|sel)) "
)
"""Operations on values that touch no memory."""
ALONE = re.compile(
    r"(%\w+) = (?:pto\.alloc_tile\s*(?:valid_row\b[^:]*)?: |pto\.partition_view|arith\.)"
)
"""A tile that shares its place with no other, for it has no address; views and scalars."""


def moved(text: str, rng: Random) -> str | None:
    """Every second of the neighbouring operations that are independent change places, from one or the
    other on: tile operations that share no tile that one of them writes, and operations on values of
    which none uses the other's."""
    lines = text.split("\n")
    alone = set(ALONE.findall(text)) | set(re.findall(r"(%t\d) = pto\.alloc_tile addr", text))
    places = [
        at
        for at in range(len(lines) - 1)
        if _independent(lines[at].strip(), lines[at + 1].strip(), alone)
    ]
    if not places:
        return None
    free = rng.randrange(2) if len(places) > 1 else 0
    for at in places:
        if at >= free:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
            free = at + 2
    return "\n".join(lines)


def _independent(one: str, two: str, alone: set[str]) -> bool:
    """True for two operations of which none needs the other; `alone` are the values that share their
    place with no other value."""
    values = PURE.match(one), PURE.match(two)
    if values[0] and values[1]:
        used = re.findall(r"%\w+", two.partition("=")[2])
        return values[0][1] not in used
    work = OPERATION.match(one), OPERATION.match(two)
    if not (work[0] and work[1]):
        return False
    if "tstore" in (work[0][1], work[1][1]) and {"tload", "tstore"} >= {work[0][1], work[1][1]}:
        return False  # through two views they may meet in global memory
    reads, writes = ([set(re.findall(r"%\w+", m[k])) for m in work] for k in (2, 3))
    return set.union(*reads, *writes) <= alone and not (
        writes[0] & (reads[1] | writes[1]) or writes[1] & reads[0]
    )


ADDRESS = re.compile(r"(%a\d+ = arith\.constant )(\d+)( : i64)")


def placed_elsewhere(text: str, rng: Random) -> str | None:
    """Tiles with addresses in another order, and with room between them."""
    places = sorted({int(m[2]) for m in ADDRESS.finditer(text)})
    if not places:
        return None
    size = max((b - a for a, b in pairwise(places)), default=4096)
    others = [n * (size + 64) for n in range(len(places))]
    rng.shuffle(others)
    new = dict(zip(places, others, strict=True))
    return ADDRESS.sub(lambda m: f"{m[1]}{new[int(m[2])]}{m[3]}", text)


CHANGES: dict[str, Change] = {
    "renamed": renamed, "printed": printed, "split": split, "moved": moved,
    "placed elsewhere": placed_elsewhere,
}  # fmt: skip


@pytest.mark.sampled(3, 12)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seed", range(12))
def test_generated_programs(seed: int, change: str) -> None:
    rng = Random(f"{seed} {change}")
    for _ in range(40):
        text, target = generated(rng)
        other = CHANGES[change](text, rng)
        if other is not None and other != text:
            break
    else:
        pytest.fail(f"no generated program can be {change}")
    before, after = (result_of(t, target, ARGS) for t in (text, other))
    assert after[1] == before[1], other
    if change == "split":  # what is found in the loop is found in both of its parts
        assert set(after[0]) == set(before[0]), other
    else:
        assert after[0] == before[0], other


SHIPPED = [
    pytest.param(name, target, id=f"{name}-{target}")
    for name in on_one_device()
    if name.startswith(("basics/", "cube/gemm", "gather/", "micro/", "vmi/"))
    for target in getattr(sidecar_of(source_path(f"@{name}")), "targets", ())[:1]
]


def shipped(name: str) -> tuple[str, dict, Sidecar]:
    path: Path = source_path(f"@{name}")
    beside = sidecar_of(path)
    assert beside is not None
    args = {n: parse_spec(s, beside.folder) for n, s in beside.args.items()}
    return path.read_text(encoding="utf-8"), args, beside


@pytest.mark.slow
@pytest.mark.sampled(0, 8)
@pytest.mark.parametrize("change", ["renamed", "printed", "split", "moved"])
@pytest.mark.parametrize(("name", "target"), SHIPPED)
def test_shipped_programs(name: str, target: str, change: str) -> None:
    text, args, beside = shipped(name)
    other = CHANGES[change](text, Random(name))
    if other is None or other == text:
        pytest.skip("nothing to change")
    before, after = (result_of(t, target, args, beside) for t in (text, other))
    assert after[1] == before[1], other
    assert set(after[0]) == set(before[0]), other


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(15))
def test_inserted_flags_and_expansions(seed: int) -> None:
    """With flags inserted, and as vector instructions, a program gives the same bytes, and nothing
    new is found."""
    rng = Random(f"rewritten {seed}")
    text, target = generated(rng)
    before = result_of(text, target, ARGS)
    front = FrontOptions(target)
    texts = [text]
    if "pto.tadd" in text or "pto.tload" in text:
        texts.append(rewritten(Source("k", text), front, plan=True, insert_sync=True)[0])
    if target == "a5" and "vecscope" not in text and "simt" not in text:
        texts.append(expand(Source("k", text), target).text)
    for other in texts[1:]:
        codes, outputs = result_of(other, target, ARGS)
        assert outputs == before[1], other
        assert not {c for c in codes if c.startswith("PTO52")}, other


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(12))
def test_a_repaired_program_is_clean(seed: int) -> None:
    """Any flags taken out and repaired: no race is left, and a second repair changes nothing."""
    rng = Random(f"repaired {seed}")
    text, target = generated(rng)
    while "pto.tload" not in text:
        text, target = generated(rng)
    flagged = rewritten(Source("k", text), FrontOptions(target), plan=False, insert_sync=True)[0]
    lines = flagged.split("\n")
    kept = [x for x in lines if not ("_flag" in x and rng.random() < 0.5)]
    pairs = Counter(x.strip().partition("[")[2] for x in kept if "_flag" in x)
    kept = [x for x in kept if "_flag" not in x or pairs[x.strip().partition("[")[2]] % 2 == 0]

    def findings(source: Source) -> list:
        return ptosim.check(source.text, target=target, sync="manual")

    mended = repair(Source("k", "\n".join(kept)), findings).source
    left = [d for d in findings(mended) if d.is_error]
    if any(d.code == "PTO5006" for d in left):
        return  # a wait without its set is not mended by more flags
    assert not left, mended.text
    assert repair(mended, findings).source.text == mended.text
