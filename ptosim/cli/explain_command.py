"""`ptosim explain CODE|SWITCH`"""

from __future__ import annotations

import argparse
import difflib

from ptosim.cli import options as shared
from ptosim.cli.terminal import Terminal
from ptosim.diagnostics.catalog import catalog
from ptosim.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "topic", nargs="?", metavar="CODE", help="a diagnostic code, or a switch name"
    )
    shared.add_output(parser, ("text", "json"))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the long text of a code or switch; without one, list them."""
    from ptosim.isa.profiles import switches

    codes = catalog()
    known = switches()
    topic = options.topic
    if topic is None:
        return _list(terminal, codes, known)
    code = topic.upper()
    if code in codes:
        entry = codes[code]
        if terminal.format == "json":
            terminal.json({"code": code, **entry.to_dict()})
        else:
            terminal.write(entry.text(code))
        return 0
    if topic in known:
        switch = known[topic]
        fields = {"switch": topic, "values": list(switch.values), "default": dict(switch.default)}
        if terminal.format == "json":
            terminal.json({**fields, "text": switch.text})
        else:
            terminal.write(_switch_text(topic, switch))
        return 0
    close = difflib.get_close_matches(code, codes, n=1) or difflib.get_close_matches(
        topic, known, n=1
    )
    raise UsageError(
        f"`{topic}` is neither a diagnostic code nor a switch",
        help=f"did you mean `{close[0]}`?" if close else "`ptosim explain` lists all of them",
    )


def _list(terminal: Terminal, codes: dict, known: dict) -> int:
    if terminal.format == "json":
        terminal.json({"codes": {c: e.title for c, e in codes.items()}, "switches": list(known)})
        return 0
    lines = [f"{code}  {entry.severity:8}{entry.title}" for code, entry in sorted(codes.items())]
    lines += ["", "switches:", *(f"  {name} = {'|'.join(s.values)}" for name, s in known.items())]
    terminal.write("\n".join(lines) + "\n")
    return 0


def _switch_text(name: str, switch) -> str:
    defaults = dict(switch.default)
    default = (
        next(iter(defaults.values()))
        if len(set(defaults.values())) == 1
        else ", ".join(f"{t}: {v}" for t, v in defaults.items())
    )
    return (
        f"{name}\n  values:  {', '.join(switch.values)}\n  default: {default}\n\n"
        f"  {switch.text}\n\n  Set it with `--set {name}={switch.values[-1]}`.\n"
    )
