"""Limits that the system keeps, beside those that ptosim looks at itself: for programs of
strangers (`--untrusted`), and for templates, of which one operation can take all memory.

A process that was confined stays so, and so do the workers that it starts."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from ptosim.ground.limits import Limits, current, resident

TEMPLATE_MEMORY = 512 << 20
"""Bytes that a template may take, unless the limit of memory says fewer."""
_SLACK = 512 << 20
"""Bytes of addresses beyond the limit of memory: stacks of threads, libraries loaded later."""
_MARGIN = 10
"""Seconds of processor time beyond the limit: what looks at the clock has its turn first."""
_REFUSED = ("execve", "execveat", "socket", "connect", "ptrace", "process_vm_writev")
"""Calls of the system that no command on a program needs: other programs, networks, other
processes."""


def confine(limits: Limits, *, lasts: bool = False) -> None:
    """Let the system refuse more memory than the limits say on top of what there is now, and stop
    the process after their seconds of processor time and a margin (unless it `lasts`, as a server
    does); no core is dumped. With the
    package pyseccomp it refuses other programs and networks too. Nothing happens where the system
    has no such limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    if limits.memory is not None:
        _lower(resource.RLIMIT_AS, _addresses() + limits.memory + _SLACK)
    if limits.seconds is not None and not lasts:
        _lower(resource.RLIMIT_CPU, int(limits.seconds) + _MARGIN)
    _lower(resource.RLIMIT_CORE, 0)
    if importlib.util.find_spec("pyseccomp") is not None:
        _refuse_calls()


def _lower(which: int, most: int) -> None:
    import resource

    soft, hard = resource.getrlimit(which)
    bounds = [n for n in (most, soft, hard) if n != resource.RLIM_INFINITY]
    resource.setrlimit(which, (min(bounds), hard))


def _refuse_calls() -> None:
    import errno

    import pyseccomp  # pyright: ignore[reportMissingImports] - an extra

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in _REFUSED:
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
    rules.load()


def little_memory() -> AbstractContextManager[None]:
    """Let the system refuse more memory than a template may take, for what happens inside."""
    return bounded(min(current().limits.memory or TEMPLATE_MEMORY, TEMPLATE_MEMORY), margin=0)


@contextmanager
def bounded(memory: int | None, margin: int = _SLACK) -> Iterator[None]:
    """Let the system refuse more than so many bytes (and a margin) for what happens inside, which
    then ends in a MemoryError; without a number nothing is refused."""
    if memory is None or importlib.util.find_spec("resource") is None:  # Windows has none
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    _lower(resource.RLIMIT_AS, _addresses() + memory + margin)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _addresses() -> int:
    """Bytes of addresses that the process has: more than its memory."""
    try:
        with open("/proc/self/statm") as numbers:
            pages = int(numbers.read().split()[0])
    except OSError:
        return resident()
    import mmap

    return pages * mmap.PAGESIZE
