"""The manual is whole: every command and option is on a page, every page is listed, every link leads
somewhere, and pages fit a terminal."""

from __future__ import annotations

import argparse
import inspect
import re

import pytest

import ptosim
from ptosim.ground.errors import PtosimError
from ptosim.shell import main as assembler
from ptosim.shell import main as command_line
from ptosim.shell.quant_options import SUBCOMMANDS
from ptosim.views import manual
from ptosim.views.render import text_of_parts
from ptosim.views.report import Room
from tests.shell.manual.pages import README, ROOT, blocks, inline, texts
from tests.unit.test_layering import ORDER

COMMANDS = [
    *(name for name in command_line.COMMANDS if name != "quant"),
    *(f"quant {name}" for name in SUBCOMMANDS),
]
SHARED = "options"
OTHERS = {"--harder", "--same", "--tquant", "--help", "--pto-update", "-p", *assembler.NAMES}
OTHERS |= {"--compile-bytecode"}
"""Options of the tools beside the command line, of argparse, pytest, the assembler and uv."""


def parser_of(command: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = command_line._parser(command.split())
    for word in command.split():
        choices = next(a.choices for a in parser._actions if a.choices and word in a.choices)
        parser = choices[word]  # type: ignore[index]
    return parser


def options_of(command: str) -> set[str]:
    options = {o for a in parser_of(command)._actions for o in a.option_strings}
    return options - {"-h", "--help"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_with_its_options(command):
    page = manual.page_of(command)
    assert page is not None, f"no heading with `ptosim {command} …`"
    written = texts()[page] + texts()[SHARED]
    missing = {o for o in options_of(command) if not re.search(rf"`{re.escape(o)}[`= ]", written)}
    assert not missing, f"{page}.md does not name {sorted(missing)}"


def test_options_that_pages_name_exist():
    known = OTHERS.union(*map(options_of, COMMANDS))
    for page, text in texts().items():
        for code in inline(text):
            if re.match("--?[a-z]", code):
                assert code.split()[0] in known, f"{page}: {code}"


def test_commands_that_pages_name_exist():
    for page, text in texts().items():
        for code in inline(text):
            if not code.startswith("ptosim ") or "…" in code or code.split()[1].isupper():
                continue
            command, *words = code.split()[1:]
            if command == "quant":
                command = f"quant {words.pop(0)}"
            assert command in COMMANDS, f"{page}: {code}"
            options = {w for w in words if w.startswith("--")}
            assert options <= options_of(command), f"{page}: {code}"


def test_every_page_is_listed():
    """In the index: each page, and the index of each folder; there the pages of the folder."""
    by_path = {path: name for name, path in manual.paths().items()}
    listed = {}
    for index in (p for p in by_path if p.stem == manual.INDEX):
        links = re.findall(r"^- \[(\w+)\]\(([\w/]+\.md)\): ", index.read_text(), re.MULTILINE)
        listed |= {by_path[index.parent / link]: name for name, link in links}
    assert all(name == page for page, name in listed.items())
    assert sorted(listed) == sorted(set(manual.pages()) - {manual.INDEX})


def test_links_lead_somewhere():
    for page, text in texts().items():
        folder = ROOT if page == README else manual.paths()[page].parent
        for link in re.findall(r"\]\(([^)]+)\)", text):
            file, _, anchor = link.partition("#")
            assert not file or (folder / file).is_file(), f"{page}: {link}"
            heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            there = {re.sub(r"[^\w.]+", "-", head).strip("-").lower() for head in heads}
            assert file or anchor in there, f"{page}: {link}"


def test_the_front_page_is_short():
    assert len(texts()[README].splitlines()) <= 250


@pytest.mark.parametrize("page", manual.pages())
def test_a_page_fits_a_terminal(page):
    """Prose and tables have 80 columns; code is as it is written, so that it can be copied."""
    text = text_of_parts([manual.rendered(page)], Room(manual.WIDTH))
    verbatim = {s for b in all_blocks(manual.pages()[page]) for s in b.splitlines()}
    lines = text.splitlines()
    for line in lines:
        assert len(line) <= manual.WIDTH or line in verbatim, line
    shown = {*lines, *(line.removeprefix("  ") for line in lines)}
    assert {line.rstrip() for line in verbatim} <= shown, "code is whole"
    assert text.splitlines()[0].isupper()


def all_blocks(text: str) -> list[str]:
    return [
        b for language in ("", "json", "mlir", "python", "toml") for b in blocks(text, language)
    ]


def test_exit_codes_are_told():
    told = texts()["diagnostics"].split("## Exit codes")[1].split("\n## ")[0]
    codes = {c.exit_code for c in subclasses(PtosimError)} | {0, 1, 70, 130}
    assert all(re.search(rf"^\| .*\b{code}\b", told, re.MULTILINE) for code in codes)


def subclasses(kind: type) -> list[type]:
    return [kind, *(s for c in kind.__subclasses__() for s in subclasses(c))]


class TestHelp:
    """`ptosim help`."""

    @pytest.fixture
    def help_of(self, capsys):
        def run(*topic: str) -> tuple[int, str, str]:
            code = command_line.main(["help", *topic])
            written = capsys.readouterr()
            return code, written.out, written.err

        return run

    def test_alone_it_lists_the_pages(self, help_of):
        code, out, _ = help_of()
        assert code == 0
        top = manual.paths()[manual.INDEX].parent
        pages = [p for p, path in manual.paths().items() if path.parent == top]
        assert all(f" • {page}: " in out for page in pages if page != manual.INDEX)

    def test_a_page_in_a_pipe_is_plain(self, help_of):
        code, out, _ = help_of("cost")
        assert code == 0
        assert "\x1b" not in out
        assert "**" not in out

    def test_in_colour_there_is_nothing_that_a_terminal_would_spell_out(self, help_of):
        """A link to another page is its topic; control sequences but colours would be shown as text."""
        _, text, _ = help_of("--color", "always")
        assert "\x1b[1m" in text
        assert "u{1b}" not in text

    def test_the_source_of_a_page(self, help_of):
        assert help_of("cost", "--format", "markdown")[1] == manual.pages()["cost"]

    @pytest.mark.parametrize(("topic", "words"), [
        ("port", "ptosim port FILE"),
        ("quant diff", "ptosim quant diff [TENSOR]"),
        ("PTO6001", "PTO6001 (error, hardware)"),
        ("pto6001", "PTO6001 (error, hardware)"),
        ("tquant.rounding", "default: rne"),
        ("tquant", "pto.tquant: "),
        ("TQUANT", "pto.tquant: "),
    ])  # fmt: skip
    def test_names_are_topics(self, help_of, topic, words):
        code, out, _ = help_of(*topic.split())
        assert code == 0
        assert words in out

    @pytest.mark.parametrize(("topic", "nearest"), [
        ("chekc", "check"), ("tquant.roundng", "tquant.rounding"), ("tqaunt", "tquant"),
    ])  # fmt: skip
    def test_the_nearest_names(self, help_of, topic, nearest):
        code, out, err = help_of(topic)
        assert (code, out) == (2, "")
        assert f"`{nearest}`" in err

    @pytest.mark.parametrize(("topic", "heading"), [
        ("sidecar", "Sidecar files"), ("exit code", "Exit codes"),
    ])  # fmt: skip
    def test_a_word_of_a_heading_shows_the_section(self, help_of, topic, heading):
        """After names come headings; a word and its plural are one."""
        code, out, _ = help_of(*topic.split())
        assert code == 0
        assert heading.lower() in out.lower()
        assert "ptosim help " in out

    def test_what_no_heading_has_is_found_in_the_text(self, help_of):
        code, out, _ = help_of("NaN")
        assert code == 0
        assert re.search(r"ptosim help \w+, .*line \d+:", out)

    def test_a_place_that_is_named_is_there(self):
        for place in manual.mentioned("flag"):
            line = manual.pages()[place.page].splitlines()[place.line - 1]
            assert "flag" in line.lower()

    @pytest.mark.parametrize("topic", ["tutoriol", "synthax", "PTO52011", "tquant.roundin"])
    def test_what_is_near_is_of_the_same_kind(self, help_of, topic):
        """A word is no operation because three letters are alike; a code is near codes only."""
        _, _, err = help_of(topic)
        near = re.findall(r"`([^`]+)`", err.partition("did you mean")[2])
        kinds = {"PTO": r"PTO\d{4}", "tqu": r"\w+\.\w+"}
        assert all(re.fullmatch(kinds.get(topic[:3], r"[a-z_]+"), word) for word in near)
        assert "ttri" not in near

    def test_nothing_is_near(self, help_of):
        code, _, err = help_of("xyzzyxyzzy")
        assert code == 2
        assert "`ptosim help` lists the pages" in err


def test_the_rooms_are_those_of_the_tree():
    written = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = written.split("## The rooms")[1].split("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", rooms, re.MULTILINE)) == ORDER


def test_functions_of_the_library_take_what_the_page_says():
    of = {"ptosim": ptosim, "program": ptosim.Program}
    table = re.findall(r"`(ptosim|program)\.(\w+)\(([^)…]*)", texts()["python"])
    assert len(table) >= 5
    for owner, name, arguments in table:
        known = inspect.signature(getattr(of[owner], name)).parameters
        named = {a.split("=")[0].strip(" *") for a in arguments.split(",")} - {""}
        assert named <= set(known), f"{owner}.{name}: {named - set(known)}"
