"""`ptosim learn [N]`"""

from __future__ import annotations

import argparse
from pathlib import Path

from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_text
from ptosim.shell.command import command
from ptosim.shell.options import option, switch
from ptosim.shell.terminal import Terminal
from ptosim.tools.lessons.course import Learner, Lesson, lesson, lessons, verdict, write_notebooks
from ptosim.views import manual
from ptosim.views.report import Line, Report, Verbatim, one_section

FOLDER = "ptosim-lessons"


@command(
    "learn",
    option("number", nargs="?", type=int, metavar="N", help="a lesson; without one: the list"),
    switch("--check", help="is the answer right? Exit code 1 if not"),
    switch("--hint", help="the next hint"),
    switch("--solution", help="the solution"),
    switch("--again", help="begin the lesson anew: the program is written again"),
    option("--folder", metavar="DIR", default=FOLDER,
           help=f"where your programs and your progress are (default: {FOLDER})"),
    option("--notebook", metavar="DIR", help="write all lessons as notebooks into a folder"),
    forms=("text",),
)  # fmt: skip
def run(options: argparse.Namespace, terminal: Terminal) -> Report:
    """Lessons: a text, a program to complete, a check, hints and the solution."""
    if options.notebook:
        written = write_notebooks(Path(options.notebook))
        return one_section([Line(f"wrote {len(written)} notebooks into {options.notebook}")])
    learner = Learner.at(Path(options.folder))
    if options.number is None:
        return _list(learner)
    one = lesson(options.number)
    if options.solution:
        return one_section([Verbatim(one.solution)])
    if options.hint:
        return one_section([Line(learner.next_hint(one))])
    if options.check:
        return _checked(learner, one)
    return _lesson_report(learner, one, anew=options.again)


def _list(learner: Learner) -> Report:
    lines = [
        f"{'✓' if each.number in learner.done else ' '} {each.number:2}  {each.title}"
        for each in lessons()
    ]
    following = learner.next_lesson
    last = f"next: ptosim learn {following.number}" if following else "all lessons are done"
    return one_section([*map(Line, lines), Line(""), Line(last)])


def _lesson_report(learner: Learner, one: Lesson, *, anew: bool) -> Report:
    is_new = learner.begin(one, anew=anew)
    path, number = learner.path(one), one.number
    state = "the program to complete" if is_new else "your program, as you left it"
    below = f"{path}: {state}\ncheck it: ptosim learn {number} --check   (--hint, --solution)"
    return one_section(
        lambda _: [manual.rendered_text(one.text), Line(""), Verbatim(f"{below}\n")],
        widest=manual.WIDTH,
    )


def _checked(learner: Learner, one: Lesson) -> Report:
    path = learner.path(one)
    if not path.is_file():
        raise UsageError(f"{path} is not there", help=f"`ptosim learn {one.number}` writes it")
    found = verdict(one, read_text(path), str(path))
    lines = [Line(line) for line in found.said]
    if not found.is_right:
        lines.append(Line(f"not yet; a hint: ptosim learn {one.number} --hint"))
        told = one_section(lines)
        told.aside, told.exit_code = found.findings, 1
        return told
    learner.finish(one)
    following = learner.next_lesson
    more = f"next: ptosim learn {following.number}" if following else "all lessons are done"
    return one_section([*lines, Line(f"Lesson {one.number} is done; {more}")])
