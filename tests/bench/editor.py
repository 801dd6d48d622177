"""From a key to a finding: random changes of a text of 100 KB, and a line that is typed in a long one."""

from __future__ import annotations

import random
import statistics
import time

from ptosim.tools.lsp import colours
from ptosim.tools.lsp.completion import offers_at
from ptosim.tools.lsp.document import Document, Settings
from ptosim.tools.lsp.predict import Scope
from tests.bench.programs import check_kernel
from tests.bench.timing import Figure, calibration

EDITS = 1000
BYTES = 100_000
_PIECES = (
    "%",
    "pto.tadd",
    "(",
    ")",
    " : ",
    "\n",
    "7",
    "{",
    "}",
    "x",
    ",",
    "<",
    ">",
    "=",
    '"',
    "//",
)


def edits() -> list[Figure]:
    """Each change deletes or inserts a few characters anywhere, and now and then all is undone; what
    is timed is reading and checking the whole text, as the language server does."""
    random_ = random.Random(0)
    lines = 100
    while len(whole := check_kernel(lines)) < BYTES:
        lines += 50
    settings = Settings()
    document = Document("k.pto", whole, settings)
    text, times = whole, []
    for number in range(EDITS):
        text = whole if number % 10 == 0 else _changed(text, random_)
        start = time.process_time()
        document = Document("k.pto", text, settings, document)
        times.append(time.process_time() - start)
    loop = calibration()
    middle, worst = statistics.median(times), max(times)
    what = f"edit to finding, {len(whole) // 1000} KB, {EDITS:,} edits"
    return [
        Figure(f"{what}: {name}", f"{1000 * seconds:.0f} ms",
               f"100k-addition loop {1000 * loop:.1f} ms", f"{seconds / loop:.0f}", budget)
        for name, seconds, budget in (("median", middle, "<= 150 ms"), ("worst", worst, "<= 500 ms"))
    ]  # fmt: skip


_TYPED = "    pto.tadd ins(%a, %b : {0}, {0}) outs(%c : {0})".format(
    "!pto.tile_buf<vec, 16x64xf32>"
)


def typing() -> list[Figure]:
    """A statement is typed key by key in the middle of a text: after each key the text is checked,
    completed at the key, and coloured. Processor time of each, the median of all keys."""
    return [
        figure for lines, factor in ((2005, 1), (10_000, 2)) for figure in _typed(lines, factor)
    ]


def _typed(lines: int, factor: int) -> list[Figure]:
    whole = check_kernel(lines).split("\n")
    at, settings = len(whole) // 2, Settings()
    document = Document("k.pto", "\n".join(whole), settings)
    times: dict[str, list[float]] = {"findings": [], "completion": [], "words": []}
    for count in range(1, len(_TYPED) + 1):
        text = "\n".join([*whole[:at], _TYPED[:count], *whole[at:]])
        offset = sum(len(line) + 1 for line in whole[:at]) + count
        begin = time.process_time()
        _ = offers_at(Scope(document, text, offset))
        completed = time.process_time()
        _ = list(colours.by_line(Scope(document, text, 0)))
        coloured = time.process_time()
        document = Document("k.pto", text, settings, document)
        times["findings"].append(time.process_time() - coloured)
        times["completion"].append(completed - begin)
        times["words"].append(coloured - completed)
    loop = calibration()
    return [
        Figure(f"key in {lines:,} lines: {what}", f"{1000 * statistics.median(each):.0f} ms",
               f"100k-addition loop {1000 * loop:.1f} ms", f"{statistics.median(each) / loop:.1f}",
               f"<= {(80 if what == 'findings' else 50) * factor} ms")
        for what, each in times.items()
    ]  # fmt: skip


def _changed(text: str, random_: random.Random) -> str:
    at = random_.randrange(len(text))
    if random_.random() < 0.5:
        return text[:at] + text[at + random_.randrange(1, 4) :]
    return text[:at] + random_.choice(_PIECES) + text[at:]
