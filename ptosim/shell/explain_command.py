"""`ptosim explain CODE|SWITCH|STAGE|"pasted error"`"""

from __future__ import annotations

import argparse
import difflib
import textwrap

from ptosim.ground.diagnostics.catalog import catalog
from ptosim.ground.diagnostics.device_errors import DeviceError
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.profiles import SwitchDef, switches
from ptosim.ground.isa.stages import TARGETS, stage_text, stage_texts
from ptosim.ground.records import NamedTuple
from ptosim.shell import options as shared
from ptosim.shell.formats import Formats, data, text
from ptosim.shell.terminal import Terminal


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "topic",
        nargs="*",
        metavar="CODE",
        help="a diagnostic code, a switch, a stage of a cast chain, or an error line of a board",
    )
    shared.add_output(parser, FORMATS)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the long text of a code, switch or stage; without one, list them."""
    topic = " ".join(options.topic).strip()
    terminal.report(_told(topic) if topic else _every())
    return 0


class _Told(NamedTuple):
    """What is said on a topic, as text and as data."""

    text: str
    fields: dict[str, object]


FORMATS: Formats[_Told] = {"text": text(lambda told: told.text), "json": data(lambda t: t.fields)}


def _told(topic: str) -> _Told:
    """What a code, a switch or a pasted error means. Raises UsageError for anything else."""
    told = _entry(topic) or _stage(topic) or _device_error(topic)
    if told is not None:
        return told
    codes, known = catalog(), switches()
    close = [
        *difflib.get_close_matches(topic.upper(), codes, n=1),
        *difflib.get_close_matches(topic, known, n=1),
        *difflib.get_close_matches(topic, [n for s in stage_texts() for n in s.names], n=1),
    ]
    raise UsageError(
        f"`{topic}` is neither a diagnostic code nor a switch nor a stage of a cast chain",
        help=f"did you mean `{close[0]}`?" if close else "`ptosim explain` lists all of them",
    )


def explanation(topic: str) -> str | None:
    """Return the long text of a diagnostic code or a switch; None if it is neither."""
    told = _entry(topic)
    return told.text if told is not None else None


def _entry(topic: str) -> _Told | None:
    code, codes, known = topic.upper(), catalog(), switches()
    if code in codes:
        return _Told(codes[code].text(code), {"code": code, **codes[code].to_dict()})
    return _switch(topic, known[topic]) if topic in known else None


def _stage(topic: str) -> _Told | None:
    """What a stage of a cast chain is; None if there is none of that name."""
    found = stage_text(topic)
    if found is None:
        return None
    lines = [f"{' or '.join(found.names)}: a stage of cast chains", ""]
    lines += textwrap.wrap(f"{found.what[0].upper()}{found.what[1:]}.", 88)
    for target, side in found.sides.items():
        lines += ["", f"On {target}:"]
        for label, text_ in (("waits for", side.waits), ("why", side.why), ("from", side.source)):
            body = textwrap.wrap(text_, 74)
            lines += [f"  {label:10}{body[0]}", *(f"{'':12}{line}" for line in body[1:])]
    missing = [t for t in TARGETS if t not in found.sides]
    lines += ["", *(f"{t} has no such stage." for t in missing)]
    lines += ["`ptosim cost FILE --view chain` shows what it costs in a program.", ""]
    sides = {target: side._asdict() for target, side in found.sides.items()}
    fields = {"stage": found.names[0], "names": found.names, "what": found.what, "targets": sides}
    return _Told("\n".join(lines), fields)


def _device_error(topic: str) -> _Told | None:
    """What a pasted error of a board means; None if nothing in it is known."""
    from ptosim.ground.diagnostics.device_errors import matching, set_bits

    entries, bits = matching(topic), set_bits(topic)
    if not entries and not bits:
        return None
    parts = [_entry_text(entry) for entry in entries]
    if bits:
        listed = ", ".join(map(str, bits))
        parts.append(
            f"errcode: bit {listed} is set. What single bits mean is not documented\n"
            "publicly; the words next to the code say more. Run the kernel here to find\n"
            "the operation: `ptosim run FILE`.\n"
        )
    return _Told("\n".join(parts), {"matches": entries, "bits": bits})


def _entry_text(entry: DeviceError) -> str:
    codes = catalog()
    lines = [entry.title, "", *textwrap.wrap(entry.text, 96), "", "Look for:"]
    lines += [f"  {code}  {codes[code].title}" for code in entry.look_for if code in codes]
    return "\n".join([*lines, "", "Run:", *(f"  {c}" for c in entry.commands), ""])


def _every() -> _Told:
    codes, known = catalog(), switches()
    lines = [f"{c}  {e.severity:8}{e.origin:10}{e.title}" for c, e in sorted(codes.items())]
    lines += ["", "switches:", *(f"  {name} = {'|'.join(s.values)}" for name, s in known.items())]
    stages = [name for s in stage_texts() for name in s.names]
    lines += ["", "stages of cast chains:", *(f"  {name}" for name in stages)]
    fields = {
        "codes": {c: e.title for c, e in codes.items()},
        "switches": list(known),
        "stages": stages,
    }
    return _Told("\n".join(lines) + "\n", fields)


def _switch(name: str, switch: SwitchDef) -> _Told:
    defaults = dict(switch.default)
    default = (
        next(iter(defaults.values()))
        if len(set(defaults.values())) == 1
        else ", ".join(f"{t}: {v}" for t, v in defaults.items())
    )
    told = (
        f"{name}\n  values:  {', '.join(switch.values)}\n  default: {default}\n\n"
        f"  {switch.text}\n\n  Set it with `--set {name}={switch.values[-1]}`.\n"
    )
    fields = {"switch": name, "values": switch.values, "default": defaults, "text": switch.text}
    return _Told(told, fields)
