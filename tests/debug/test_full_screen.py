"""The full screen, driven without a terminal: keys and commands move the run, the panels follow."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from tests.debug.helpers import LOOP, debug

pytest.importorskip("textual")

from ptosim.debug.tui.app import View


async def ended(app, pilot):
    await app.workers.wait_for_complete()
    await pilot.pause()


async def ask(app, pilot, line):
    """Type a command and wait for its end."""
    app.query_one("#command").value = line
    await pilot.press("enter")
    await ended(app, pilot)


def text(app, name):
    """What a panel shows."""
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(app.query_one(f"#{name}").content)
    return console.export_text()


def output(app):
    return "\n".join(strip.text for strip in app.query_one("#output").lines)


def test_keys_and_commands_move_the_run_both_ways():
    session = debug("loop", LOOP)

    async def drive():
        app = View(session)
        async with app.run_test(size=(160, 50)) as pilot:
            await pilot.press("f11")
            await ended(app, pilot)
            assert session.line() == 22
            assert "->   22" in text(app, "source")
            assert "not written" in text(app, "tiles")
            await ask(app, pilot, "until tadds")
            assert "->   26" in text(app, "source")
            assert "pto.tadds" in output(app)
            await pilot.press("f9")
            await ended(app, pilot)
            assert session.line() == 4
            await ask(app, pilot, "brek 3")
            assert "did you mean `break`?" in output(app)
            assert "%a" in text(app, "map")
            assert "MTE2" in text(app, "pipes")
            assert "no findings" in text(app, "findings")
            await ask(app, pilot, "quit")
        assert app.return_value == 0

    asyncio.run(drive())
