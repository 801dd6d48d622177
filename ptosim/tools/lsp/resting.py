"""A text at rest is followed and priced in a process of its own, which ends at once if a key comes.

The process is kept for the next text, as long as nobody is in the way of it. It is spoken to in
pickles with their length before them: both ends are this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import struct
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from typing import BinaryIO

from ptosim.tools.lsp.document import Document, Measured, Settings

Job = tuple[str, str, Settings, str | None]
"""Name, text, settings and folder of a document."""
_LENGTH = struct.Struct("<Q")


class Resting:
    """The process beside one server."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def measure(self, documents: Sequence[Document]) -> list[Measured]:
        """Return what following and pricing brings out of each; of one that the process died of,
        what its text says. Cancelled, it leaves no process behind."""
        return [await self._one(document) for document in documents]

    async def _one(self, document: Document) -> Measured:
        async with self._turn:
            process = self._process or await self._begin()
            self._process = None  # until the answer is there, nobody else's
            try:
                found = await _asked(process, document)
            except BaseException as problem:
                _kill(process)
                if isinstance(problem, (OSError, EOFError, asyncio.IncompleteReadError)):
                    return Measured(document.checked.findings)
                raise
            self._process = process
            return found

    async def _begin(self) -> Process:
        words = [sys.executable, "-m", __name__]
        return await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)

    def end(self) -> None:
        """Leave no process behind."""
        process, self._process = self._process, None
        if process is not None:
            _kill(process)


def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            process.kill()


async def _asked(process: Process, document: Document) -> Measured:
    assert process.stdin is not None
    assert process.stdout is not None
    job: Job = (document.source.name, document.text, document.settings, document.folder)
    process.stdin.write(_packed(job))
    await process.stdin.drain()
    (length,) = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
    return pickle.loads(await process.stdout.readexactly(length))


def _packed(value: object) -> bytes:
    data = pickle.dumps(value)
    return _LENGTH.pack(len(data)) + data


def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Measure texts until the server is gone."""
    while head := source.read(_LENGTH.size):
        (length,) = _LENGTH.unpack(head)
        name, text, settings, folder = pickle.loads(source.read(length))
        sink.write(_packed(Document(name, text, settings, folder=folder).measure()))
        sink.flush()


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    with contextlib.suppress(BrokenPipeError, EOFError, KeyboardInterrupt):
        _serve(sys.stdin.buffer, answers)
