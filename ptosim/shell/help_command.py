"""`ptosim help [TOPIC]`"""

from __future__ import annotations

import argparse
import difflib

from ptosim.ground.errors import UsageError
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, text
from ptosim.shell.terminal import Terminal
from ptosim.views import manual
from ptosim.views.man_page import man_page


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "topic",
        nargs="*",
        metavar="TOPIC",
        help="a page, a command, an operation, a switch or a diagnostic code; "
        "without one: the list of pages",
    )
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print a page of the manual, or what `explain` and `ops` say of a name of theirs."""
    topic = " ".join(options.topic).strip()
    page = manual.page_of(topic or manual.INDEX)
    if page is not None:
        terminal.report(page)
        return 0
    found = _looked_up(topic, terminal)
    if found is None:
        names = {name.lower(): name for name in [*_names(), *manual.topics()]}
        close = difflib.get_close_matches(topic.lower(), names, n=3)
        similar = ", ".join(f"`{names[word]}`" for word in close)
        raise UsageError(
            f"the manual has no page on `{topic}`",
            help=f"did you mean {similar}?" if close else "`ptosim help` lists the pages",
        )
    terminal.write(found)
    return 0


def _text(page: str, terminal: Terminal) -> str:
    return terminal.render([manual.rendered(page)], min(terminal.width(), manual.WIDTH))


FORMATS: Formats[str] = {
    "text": _text,
    "markdown": text(lambda page: manual.pages()[page]),
    "man": text(man_page),
}


def _looked_up(topic: str, terminal: Terminal) -> str | None:
    """Return what the data say of a diagnostic code, a switch or an operation."""
    from ptosim.shell.explain_command import explanation
    from ptosim.shell.ops_command import definition_of
    from ptosim.views.op_card import card

    told = explanation(topic)
    if told is not None:
        return f"{told}\n(`ptosim explain {topic}`)\n"
    definition = definition_of(topic)
    if definition is None:
        return None
    return f"{card(definition, terminal.width())}\n(`ptosim ops {definition.mnemonic}`)\n"


def _names() -> list[str]:
    from ptosim.ground.diagnostics.catalog import catalog
    from ptosim.ground.isa.profiles import switches
    from ptosim.ground.isa.rows import isa

    operations = [name.removeprefix("pto.") for name in isa().names()]
    return [*operations, *switches(), *catalog()]
