"""Chromium without a screen, driven over pipes by its own protocol (DevTools): one process for many
pages, nothing but the standard library."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60
"""Seconds until the browser must have answered."""


def executable() -> str | None:
    """The browser of this machine, None if it has none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab."""

    def __init__(self, send: Any, session: str) -> None:
        self._send, self._session = send, session

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol on this tab."""
        return self._send(method, params, self._session)

    def open(self, path: Path, width: int, *, dark: bool, height: int = 1000) -> None:
        """Open a file in a window of this width and colour scheme, and wait until it is drawn."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if (
                self.value("document.readyState") == "complete"
                and self.value("location.href") == path.resolve().as_uri()
            ):
                return
            time.sleep(0.02)
        raise TimeoutError(f"{path} is not drawn")

    def value(self, expression: str) -> Any:
        """Return what an expression gives in the page, as JSON data."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")


@contextmanager
def browser() -> Iterator[Page]:
    """Start the browser with one tab; it is closed at the end."""
    (to_read, to_write), (from_read, from_write) = _high(os.pipe()), _high(os.pipe())
    path = executable()
    assert path is not None

    def connect() -> None:  # the browser reads from descriptor 3 and writes to 4
        os.dup2(to_read, 3)
        os.dup2(from_write, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [path, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=connect, close_fds=False, stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(from_write)
        send = _sender(to_write, from_read)
        try:
            target = send("Target.createTarget", {"url": "about:blank"})["targetId"]
            session = send("Target.attachToTarget", {"targetId": target, "flatten": True})[
                "sessionId"
            ]
            yield Page(send, session)
            send("Browser.close", {})
        finally:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(to_write)
            os.close(from_read)


def _high(ends: tuple[int, int]) -> tuple[int, int]:
    """The ends of a pipe at numbers beyond those that the browser needs."""
    found = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
    for end in ends:
        os.close(end)
    return found[0], found[1]


def _sender(to: int, of: int) -> Any:
    """The function that sends a call and returns its result; messages end in a NUL."""
    state: dict[str, Any] = {"id": 0, "rest": b""}

    def send(method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        state["id"] += 1
        message = {"id": state["id"], "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        os.write(to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in state["rest"]:
                got = os.read(of, 1 << 16)
                if not got:
                    raise ConnectionError("the browser is gone")
                state["rest"] += got
            line, _, state["rest"] = state["rest"].partition(b"\0")
            answer = json.loads(line)
            if answer.get("id") == state["id"]:
                assert "error" not in answer, answer
                return answer["result"]

    return send
