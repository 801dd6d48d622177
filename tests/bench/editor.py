"""From a key to a finding: random changes of a text of 100 KB, a line that is typed in a long one, and a
server that is started, asked and left."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ptosim.tools.lsp import outline
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


_BEFORE = {
    "findings": "; before 280 ms", "completion": "; before 1,000 ms", "words": "; before 1,100 ms",
}  # fmt: skip
"""When each key read, bound and checked the whole text."""


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
        _ = list(outline.by_line(Scope(document, text, 0)))
        coloured = time.process_time()
        document = Document("k.pto", text, settings, document)
        times["findings"].append(time.process_time() - coloured)
        times["completion"].append(completed - begin)
        times["words"].append(coloured - completed)
    loop = calibration()
    before = _BEFORE if lines == 2005 else {}
    return [
        Figure(f"key in {lines:,} lines: {what}", f"{1000 * statistics.median(each):.0f} ms",
               f"100k-addition loop {1000 * loop:.1f} ms{before.get(what, '')}",
               f"{statistics.median(each) / loop:.1f}",
               f"<= {(80 if what == 'findings' else 50) * factor} ms")
        for what, each in times.items()
    ]  # fmt: skip


def _changed(text: str, random_: random.Random) -> str:
    at = random_.randrange(len(text))
    if random_.random() < 0.5:
        return text[:at] + text[at + random_.randrange(1, 4) :]
    return text[:at] + random_.choice(_PIECES) + text[at:]


def server() -> list[Figure]:
    """A server that has a text open in which keys were typed: the most memory that it had, and the
    time on the wall from `exit` to its end."""
    return [figure for lines, factor in ((2005, 1), (10_000, 2)) for figure in _left(lines, factor)]


_URI = "file:///bench/k.pto"
KEYS = 10


def _left(lines: int, factor: int) -> list[Figure]:
    text = check_kernel(lines)
    at = {"line": lines // 2, "character": 0}
    named = {"textDocument": {"uri": _URI}}
    process = subprocess.Popen([sys.executable, "-m", "ptosim", "lsp"], stdin=-1, stdout=-1)
    with process:
        _ask(process, "initialize", {"capabilities": {}})
        opened = {"uri": _URI, "languageId": "pto", "version": 1, "text": text}
        _send(process, method="textDocument/didOpen", params={"textDocument": opened})
        for key in range(KEYS):
            change = {"range": {"start": at, "end": at}, "text": " "}
            now = {"textDocument": {"uri": _URI, "version": key + 2}, "contentChanges": [change]}
            _send(process, method="textDocument/didChange", params=now)
            _ask(process, "textDocument/completion", {**named, "position": at})
            _ask(process, "textDocument/semanticTokens/full", named)
            _ask(process, "textDocument/foldingRange", named)  # which needs a checked text
        status = Path(f"/proc/{process.pid}/status").read_text()
        most = int(status.partition("VmHWM:")[2].split()[0]) / 1000
        _ask(process, "shutdown", None)
        start = time.perf_counter()
        _send(process, method="exit")
        process.wait()
        took = time.perf_counter() - start
    what = f"server, {lines:,} lines"
    return [
        Figure(f"{what}: memory", f"{most:.0f} MB", "", "", f"<= {150 * factor} MB"),
        Figure(f"{what}: exit", f"{1000 * took:.0f} ms", "before 2,000 ms", "", "<= 200 ms"),
    ]


def _send(process: subprocess.Popen[bytes], **message: Any) -> None:
    assert process.stdin is not None
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    process.stdin.flush()


def _ask(process: subprocess.Popen[bytes], method: str, params: Any) -> None:
    """Send a request and wait for its answer."""
    assert process.stdout is not None
    _send(process, id=1, method=method, params=params)
    while True:
        length = 0
        while line := process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        answer = json.loads(process.stdout.read(length))
        if answer.get("id") == 1 and "method" not in answer:
            assert "error" not in answer, answer
            return
