"""Requests that can be broken off: `cancel`, or a request to stop, comes while an expression is
evaluated."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 1.0
"""Seconds that a request has once the editor wants to stop."""


class Cancelled(Exception):
    """The editor does not want the answer any more."""


class Breaker:
    """Interrupts the main thread while it answers a request; elsewhere a request is not broken off.
    `cancel` and `stop` are called by the thread that listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answering: Any = None
        self._unwanted: set[Any] = set()
        self._is_broken = False

    @contextmanager
    def whole(self) -> Iterator[None]:
        """An interrupt that comes when its request has just been answered is no news."""
        try:
            yield
        except KeyboardInterrupt:
            if not self._is_broken:
                raise
        self._is_broken = False

    @contextmanager
    def breaking(self, number: Any) -> Iterator[None]:
        """Answer a request. Raises Cancelled if it is broken off."""
        with self._lock:
            if number in self._unwanted:
                self._unwanted.discard(number)
                raise Cancelled
            is_main = threading.current_thread() is threading.main_thread()
            self._answering = number if is_main else None
        try:
            yield
        except KeyboardInterrupt:
            if not self._is_broken:
                raise
            raise Cancelled from None
        finally:
            with self._lock:
                self._answering = None

    def cancel(self, message: dict[str, Any]) -> None:
        """Break off the request that a `cancel` names, or let it be refused when its turn comes."""
        arguments = message.get("arguments")
        number = arguments.get("requestId") if isinstance(arguments, dict) else None
        if not isinstance(number, int):
            return
        with self._lock:
            if number == self._answering:
                self._interrupt()
            elif len(self._unwanted) < 1000:
                self._unwanted.add(number)

    def stop(self) -> None:
        """Break off the request that is being answered, if it goes on for long: what is answered
        soon is answered, however fast a script writes its requests."""
        with self._lock:
            number = self._answering
        if number is None:
            return
        timer = threading.Timer(PATIENCE, self._if_still, (number,))
        timer.daemon = True
        timer.start()

    def _if_still(self, number: Any) -> None:
        with self._lock:
            if self._answering == number:
                self._interrupt()

    def _interrupt(self) -> None:
        self._is_broken = True
        main = threading.main_thread().ident
        if hasattr(signal, "pthread_kill") and main is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pthread_kill(main, signal.SIGINT)
        else:
            import _thread

            _thread.interrupt_main()
