"""`ptosim explain CODE|SWITCH|"pasted error"`"""

from __future__ import annotations

import argparse
import difflib
import textwrap

from ptosim.cli import options as shared
from ptosim.cli.terminal import Terminal
from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.diagnostics.device_errors import DeviceError
from ptosim.ground.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "topic",
        nargs="*",
        metavar="CODE",
        help="a diagnostic code, a switch name, or an error line of a board",
    )
    shared.add_output(parser, ("text", "json"))


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the long text of a code or switch; without one, list them."""
    from ptosim.ground.isa.profiles import switches

    codes = catalog()
    known = switches()
    topic = " ".join(options.topic).strip()
    if not topic:
        return _list(terminal, codes, known)
    text = explanation(topic)
    if text is not None:
        if terminal.format == "json":
            terminal.json(_facts(topic))
        else:
            terminal.write(text)
        return 0
    if _device_error(topic, terminal):
        return 0
    close = difflib.get_close_matches(topic.upper(), codes, n=1) or difflib.get_close_matches(
        topic, known, n=1
    )
    raise UsageError(
        f"`{topic}` is neither a diagnostic code nor a switch",
        help=f"did you mean `{close[0]}`?" if close else "`ptosim explain` lists all of them",
    )


def explanation(topic: str) -> str | None:
    """Return the long text of a diagnostic code or a switch; None if it is neither."""
    from ptosim.ground.isa.profiles import switches

    code = topic.upper()
    if code in catalog():
        return catalog()[code].text(code)
    return _switch_text(topic, switches()[topic]) if topic in switches() else None


def _facts(topic: str) -> dict[str, object]:
    """Return a diagnostic code or a switch as data."""
    from ptosim.ground.isa.profiles import switches

    code = topic.upper()
    if code in catalog():
        return {"code": code, **catalog()[code].to_dict()}
    switch = switches()[topic]
    return {
        "switch": topic,
        "values": list(switch.values),
        "default": dict(switch.default),
        "text": switch.text,
    }


def _device_error(topic: str, terminal: Terminal) -> bool:
    """Say what a pasted error of a board means; False if nothing in it is known."""
    from ptosim.ground.diagnostics.device_errors import matching, set_bits

    entries, bits = matching(topic), set_bits(topic)
    if not entries and not bits:
        return False
    if terminal.format == "json":
        terminal.json({"matches": [e.to_dict() for e in entries], "bits": bits})
        return True
    parts = [_entry_text(entry) for entry in entries]
    if bits:
        listed = ", ".join(map(str, bits))
        parts.append(
            f"errcode: bit {listed} is set. What single bits stand for is not documented\n"
            "publicly; the words beside the code say more. Run the kernel here to find\n"
            "the operation: `ptosim run FILE`.\n"
        )
    terminal.write("\n".join(parts))
    return True


def _entry_text(entry: DeviceError) -> str:
    codes = catalog()
    lines = [entry.title, "", *textwrap.wrap(entry.text, 96), "", "Look for:"]
    lines += [f"  {code}  {codes[code].title}" for code in entry.look_for if code in codes]
    return "\n".join([*lines, "", "Run:", *(f"  {c}" for c in entry.commands), ""])


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
