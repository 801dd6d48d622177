"""From a key to a finding: random changes of a text of 100 KB."""

from __future__ import annotations

import random
import statistics
import time

from ptosim.tools.lsp.document import Document, Settings
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
    Document("k.pto", whole, settings)
    text, times = whole, []
    for number in range(EDITS):
        text = whole if number % 10 == 0 else _changed(text, random_)
        start = time.process_time()
        _ = Document("k.pto", text, settings).findings
        times.append(time.process_time() - start)
    loop = calibration()
    middle, worst = statistics.median(times), max(times)
    what = f"edit to finding, {len(whole) // 1000} KB, {EDITS:,} edits"
    return [
        Figure(f"{what}: {name}", f"{1000 * seconds:.0f} ms",
               f"100k-addition loop {1000 * loop:.1f} ms", f"{seconds / loop:.0f}", budget)
        for name, seconds, budget in (("median", middle, "<= 150 ms"), ("worst", worst, "<= 500 ms"))
    ]  # fmt: skip


def _changed(text: str, random_: random.Random) -> str:
    at = random_.randrange(len(text))
    if random_.random() < 0.5:
        return text[:at] + text[at + random_.randrange(1, 4) :]
    return text[:at] + random_.choice(_PIECES) + text[at:]
