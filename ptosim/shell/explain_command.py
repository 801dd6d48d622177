"""`ptosim explain CODE|RULE|SWITCH|STAGE|"pasted error"` and `ptosim help [TOPIC]`"""

from __future__ import annotations

import argparse
import difflib
import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ptosim.ground.diagnostics.catalog import COLUMNS, catalog, shown_by_programs
from ptosim.ground.errors import UsageError
from ptosim.ground.isa.dates import SwitchDef, switches
from ptosim.ground.isa.overlay import TARGETS, stage_text, stage_texts
from ptosim.ground.records import NamedTuple
from ptosim.shell.command import command
from ptosim.shell.options import option
from ptosim.shell.terminal import Terminal
from ptosim.views.report import Line, Part, Report, Verbatim, one_section

if TYPE_CHECKING:
    from ptosim.ground.diagnostics.catalog import DeviceError


@command(
    "explain",
    option(
        "topic", nargs="*", metavar="CODE",
        help="a diagnostic code, a rule of boards (A08), a switch, a stage of a cast chain, or an "
        "error line of a board",
    ),
    forms=("text", "json"),
)  # fmt: skip
def explain(options: argparse.Namespace, terminal: Terminal) -> Report:
    """The long text of a code, switch or stage; without one, the list of them."""
    topic = " ".join(options.topic).strip()
    told = _meaning_of(topic) if topic else _every()
    return one_section(_lines(told.text), lambda: told.fields)


def _lines(text: str) -> list[Part]:
    """Lines of programs go on below, further in, where blanks mean nothing: not in comments, nor in
    files of another kind."""
    lines = text.removesuffix("\n").split("\n")
    return [_program_line(line) for line in lines]


def _program_line(line: str) -> Part:
    if "!pto." not in line or "//" in line or line.lstrip().startswith(("{", '"', "'")):
        return Verbatim(f"{line}\n")
    return Line(line, len(line) - len(line.lstrip()) + 4)


class _Told(NamedTuple):
    """What is said on a topic, as text and as data."""

    text: str
    fields: dict[str, object]


def _meaning_of(topic: str) -> _Told:
    """What a code, a switch or a pasted error means. Raises UsageError for anything else."""
    told = _entry(topic) or _board_rule(topic) or _stage(topic) or _device_error(topic)
    if told is not None:
        return told
    from ptosim.ground.diagnostics.boards import board_rules

    codes, known = catalog(), switches()
    close = [
        *difflib.get_close_matches(topic.upper(), codes, n=1),
        *difflib.get_close_matches(topic.upper(), board_rules(), n=1),
        *difflib.get_close_matches(topic, known, n=1),
        *difflib.get_close_matches(topic, [n for s in stage_texts() for n in s.names], n=1),
    ]
    raise UsageError(
        f"`{topic}` is neither a diagnostic code nor a rule of boards, a switch or a stage of a "
        "cast chain",
        help=f"did you mean `{close[0]}`?" if close else "`ptosim explain` lists all of them",
    )


def _entry(topic: str) -> _Told | None:
    code, codes, known = topic.upper(), catalog(), switches()
    if code in codes:
        programs = shown_by_programs().get(code)
        fields = {"programs": programs._asdict()} if programs is not None else {}
        return _Told(codes[code].text(code), {"code": code, **codes[code].to_dict(), **fields})
    return _switch(topic, known[topic]) if topic in known else None


def _board_rule(topic: str) -> _Told | None:
    """What boards taught, with a wrong and a right program; None if there is no rule of that id."""
    from ptosim.ground.diagnostics.boards import board_rules

    rule = board_rules().get(topic.upper())
    return _Told(rule.told(), rule.to_dict()) if rule is not None else None


def _stage(topic: str) -> _Told | None:
    """What a stage of a cast chain is; None if there is none of that name."""
    found = stage_text(topic)
    if found is None:
        return None
    lines = [f"{' or '.join(found.names)}: a stage of cast chains", ""]
    lines += textwrap.wrap(f"{found.what[0].upper()}{found.what[1:]}.", COLUMNS)
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
    from ptosim.ground.diagnostics.catalog import matching, set_bits

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
    lines = [entry.title, "", *textwrap.wrap(entry.text, COLUMNS), "", "Look for:"]
    lines += [f"  {code}  {codes[code].title}" for code in entry.look_for if code in codes]
    return "\n".join([*lines, "", "Run:", *(f"  {c}" for c in entry.commands), ""])


def _every() -> _Told:
    from ptosim.ground.diagnostics.boards import board_rules

    codes, known = catalog(), switches()
    lines = [f"{c}  {e.severity:8}{e.origin:10}{e.title}" for c, e in sorted(codes.items())]
    lines += ["", "switches:", *(f"  {name} = {' | '.join(s.values)}" for name, s in known.items())]
    stages = [name for s in stage_texts() for name in s.names]
    lines += ["", "stages of cast chains:", *(f"  {name}" for name in stages)]
    rules = board_rules()
    lines += ["", "rules that boards taught:", *(f"  {r.id}  {r.title}" for r in rules.values())]
    lines = [part for line in lines for part in _filled(line)]
    fields = {
        "codes": {c: e.title for c, e in codes.items()},
        "switches": list(known),
        "stages": stages,
        "rules": {r.id: r.title for r in rules.values()},
    }
    return _Told("\n".join(lines) + "\n", fields)


def _filled(line: str) -> list[str]:
    """A line of a list, the rest of a long one below what it says."""
    whole = textwrap.wrap(
        line, COLUMNS, subsequent_indent=" " * 10, break_on_hyphens=False,
        drop_whitespace=True,
    )  # fmt: skip
    return [line] if len(line) <= COLUMNS else whole


def _switch(name: str, switch: SwitchDef) -> _Told:
    defaults = dict(switch.default)
    default = (
        next(iter(defaults.values()))
        if len(set(defaults.values())) == 1
        else ", ".join(f"{t}: {v}" for t, v in defaults.items())
    )
    text = textwrap.fill(switch.text, COLUMNS, initial_indent="  ", subsequent_indent="  ")
    values = textwrap.fill(", ".join(switch.values), COLUMNS - 11).replace("\n", "\n" + " " * 11)
    told = (
        f"{name}\n  values:  {values}\n  default: {default}\n\n"
        f"{text}\n\n  Set it with `--set {name}={switch.values[-1]}`.\n"
        + "".join(f"  {line}\n" for line in _together(name, switch))
    )
    fields: dict[str, object] = {
        "switch": name, "values": switch.values, "default": defaults, "text": switch.text,
    }  # fmt: skip
    if switch.sets:
        fields["sets"] = switch.sets
    return _Told(told, fields)


def _together(name: str, switch: SwitchDef) -> Iterator[str]:
    """What a switch sets of others, and which one sets it."""
    for value, given in switch.sets.items():
        yield from textwrap.wrap(
            f"`{value}` sets {', '.join(f'{key}={v}' for key, v in given.items())}.",
            COLUMNS - 2, break_on_hyphens=False,
        )  # fmt: skip
    by = [s.name for s in switches().values() if any(name in given for given in s.sets.values())]
    if by:
        yield f"Switch `{', '.join(by)}` sets it together with others."


# -- the manual ------------------------------------------------------------------------------------


@command(
    "help",
    option(
        "topic", nargs="*", metavar="TOPIC",
        help="a page, a command, an operation, a switch, a diagnostic code, or words to search "
        "for; without one: the list of pages",
    ),
    forms=("text", "markdown", "man"),
)  # fmt: skip
def help_(options: argparse.Namespace, terminal: Terminal) -> Report:
    """A page of the manual, or what `explain` and `ops` say of a name of theirs."""
    from ptosim.views import manual

    topic = " ".join(options.topic).strip()
    page = manual.page_of(topic or manual.INDEX)
    if page is not None:
        own: dict[str, Any] = {
            "markdown": lambda: manual.pages()[page], "man": lambda: manual.man_page(page)
        }  # fmt: skip
        return one_section(lambda _: [manual.rendered(page)], own=own, widest=manual.WIDTH)
    found = _looked_up(topic, terminal)
    if found is not None:
        return one_section([Verbatim(found)], own=dict.fromkeys(("markdown", "man"), lambda: found))
    return _searched(topic)


def _searched(topic: str) -> Report:
    """The section whose heading has the words and where there are more, or every place of the text.
    Raises UsageError if the manual has them nowhere."""
    from ptosim.views import manual

    headed = manual.headed(topic)
    if headed:
        first, *others = headed
        where = [f"`ptosim help {first.page}` has this section"]
        where += [f"`ptosim help {s.page}`: {s.title}" for s in others[: manual.SHOWN]]
        text = f"{first.text}\n" + "".join(f"- {line}\n" for line in where)
    else:
        text = _places(topic)
    own = dict.fromkeys(("markdown", "man"), lambda: text)
    return one_section(lambda _: [manual.rendered_text(text)], own=own, widest=manual.WIDTH)


def _places(topic: str) -> str:
    from ptosim.views import manual

    places = manual.mentioned(topic)
    if not places:
        similar = _similar(topic)
        raise UsageError(
            f"the manual has nothing on `{topic}`",
            help=f"did you mean {similar}?" if similar else "`ptosim help` lists the pages",
        )
    shown = places[: manual.SHOWN]
    lines = [f"# {topic}", "", f"No heading is about it. Lines with it: {len(places)}.", ""]
    lines += [f"- `ptosim help {p.page}`, {p.title}, line {p.line}: {p.text}" for p in shown]
    rest = len(places) - len(shown)
    return "\n".join([*lines, *([f"\n… and {rest} more."] if rest else []), ""])


_CODE = re.compile(r"(?i)pto\d+")


def _similar(topic: str) -> str:
    """Names that are near, of the kind that the word looks like: a code, a switch, or a page, a
    command, a word of a heading; an operation only if it is very near."""
    from ptosim.views import manual

    word = topic.lower()
    if _CODE.fullmatch(topic):
        return _listed(difflib.get_close_matches(topic.upper(), catalog(), n=3))
    if "." in word:
        return _listed(difflib.get_close_matches(word, [*switches(), *_operations()], n=3))
    words = [*manual.topics(), *manual.heading_words()]
    close = difflib.get_close_matches(word, words, n=3, cutoff=0.75)
    close += difflib.get_close_matches(word, _operations(), n=2, cutoff=0.8)
    return _listed(list(dict.fromkeys(close))[:3])


def _listed(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _looked_up(topic: str, terminal: Terminal) -> str | None:
    """Return what the data say of a diagnostic code, a switch or an operation."""
    from ptosim.shell.ops_command import definition_of
    from ptosim.views.operations import card

    told = _entry(topic)
    if told is not None:
        return f"{told.text}\n(`ptosim explain {topic}`)\n"
    definition = definition_of(topic)
    if definition is None:
        return None
    return f"{card(definition, terminal.width())}\n(`ptosim ops {definition.mnemonic}`)\n"


def _operations() -> list[str]:
    from ptosim.ground.isa.rows import isa

    return [name.removeprefix("pto.") for name in isa().names()]
