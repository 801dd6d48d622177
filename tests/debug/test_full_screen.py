"""The full screen, driven without a terminal: keys and commands move the run, the panels follow."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from tests.debug.helpers import LOOP, debug

pytest.importorskip("textual")

from ptosim.debug.tui import View


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


@pytest.mark.slow
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


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_everything_has_room_on_a_small_screen(size):
    """At 80x24 one panel is below the source, and F2 goes on to the next; at 120x40 all are there. The
    line for commands is on the screen, and tables keep names and states."""
    session = debug("loop", LOOP)

    async def drive():
        app = View(session)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await ask(app, pilot, "until tadds")
            shown = [p for p in app.query(".panel") if p.display]
            assert len(shown) == (1 if size[0] == 80 else 4)
            for widget in (*shown, *map(app.query_one, ("#source", "#output", "#command"))):
                region = widget.region
                assert region.height >= 3
                assert region.width >= 38
                assert region.right <= size[0]
                assert region.bottom <= size[1]
            assert "->   26" in text(app, "source")
            panel = app.query_one("#tiles")
            lines = "\n".join(
                "".join(s.text for s in panel.render_line(y)) for y in range(panel.size.height)
            )
            assert "name" in lines
            assert "state" in lines
            assert "%a" in lines
            if size[0] == 80:
                await pilot.press("f2")
                await pilot.pause()
                (panel,) = [p for p in app.query(".panel") if p.display]
                assert panel.border_title == "pipes"

    asyncio.run(drive())


@pytest.mark.slow
def test_the_panels_follow_the_size_of_the_screen():
    session = debug("loop", LOOP)

    async def drive():
        app = View(session)
        async with app.run_test(size=(160, 50)) as pilot:
            await pilot.resize_terminal(80, 24)
            await pilot.pause()
            assert len([p for p in app.query(".panel") if p.display]) == 1
            await pilot.resize_terminal(120, 28)
            await pilot.pause()
            assert len([p for p in app.query(".panel") if p.display]) == 1
            await pilot.resize_terminal(160, 50)
            await pilot.pause()
            assert len([p for p in app.query(".panel") if p.display]) == 4

    asyncio.run(drive())
