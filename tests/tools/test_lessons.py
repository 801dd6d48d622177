"""Every lesson as a learner walks it: a wrong answer, a hint, the right answer."""

from __future__ import annotations

import json
import re

import pytest

from ptosim.shell.main import main, understands
from ptosim.tools.lessons.course import Lesson, lessons, verdict
from ptosim.views import manual
from ptosim.views.render import text_of_parts
from ptosim.views.report import Room

EVERY = pytest.mark.parametrize("one", lessons(), ids=lambda one: one.name)


def test_there_are_sixteen() -> None:
    assert [one.number for one in lessons()] == list(range(1, 17))


@EVERY
def test_the_program_to_complete_is_not_right_yet(one: Lesson) -> None:
    found = verdict(one, one.start)
    assert not found.is_right
    assert found.said


@EVERY
def test_the_solution_is_right(one: Lesson) -> None:
    found = verdict(one, one.solution)
    assert found.is_right, (found.said, found.findings)


@EVERY
def test_a_text_has_at_most_two_screens(one: Lesson) -> None:
    text = text_of_parts([manual.rendered_text(one.text)], Room(manual.WIDTH))
    assert len(text.splitlines()) <= 2 * 24
    assert all(len(line) <= manual.WIDTH for line in text.splitlines())


@EVERY
def test_there_are_a_few_hints(one: Lesson) -> None:
    assert 2 <= len(one.hints) <= 4


@pytest.mark.slow
def test_pages_that_lessons_name_are_there() -> None:
    for one in lessons():
        for topic in re.findall(r"`ptosim help ([^`]+)`", one.text):
            assert main(["help", *topic.split()]) == 0, (one.name, topic)
        for name in re.findall(r"`ptosim (?:ops|explain) ([\w.]+)`", one.text):
            assert main(["ops" if name.islower() else "explain", name]) == 0, (one.name, name)


def test_commands_of_lessons_are_ones() -> None:
    for one in lessons():
        for words in re.findall(r"`ptosim ([^`]+ FILE[^`]*)`", one.text):
            assert understands(words.split()), (one.name, words)


class TestALearner:
    """The command, in a folder of the learner's own."""

    @pytest.fixture
    def learn(self, tmp_path, capsys):
        def run(*words: str) -> tuple[int, str, str]:
            code = main(["learn", *words, "--folder", str(tmp_path / "mine")])
            written = capsys.readouterr()
            return code, written.out, written.err

        return run

    @EVERY
    def test_wrong_hint_right(self, one, learn, tmp_path):
        file = tmp_path / "mine" / one.file
        number = str(one.number)
        code, out, _ = learn(number)
        assert code == 0
        assert one.title.lower() in out.lower()
        assert file.read_text() == one.start
        code, out, _ = learn(number, "--check")
        assert code == 1
        assert "not yet" in out
        code, out, _ = learn(number, "--hint")
        assert (code, out.split(":")[0]) == (0, f"Hint 1 of {len(one.hints)}")
        code, out, _ = learn(number, "--solution")
        assert out == one.solution
        file.write_text(out)
        code, out, _ = learn(number, "--check")
        assert code == 0
        assert f"Lesson {one.number} is done" in out
        assert f"✓ {one.number:2}" in learn()[1]

    def test_a_program_is_kept_until_it_is_begun_again(self, learn, tmp_path):
        learn("1")
        file = tmp_path / "mine" / lessons()[0].file
        file.write_text("mine")
        assert "as you left it" in learn("1")[1]
        assert file.read_text() == "mine"
        learn("1", "--again")
        assert file.read_text() == lessons()[0].start

    def test_hints_come_one_by_one(self, learn):
        told = [learn("1", "--hint")[1] for _ in range(4)]
        assert told[0] != told[1]
        assert told[2] == told[3]

    def test_what_is_wrong_has_a_place_in_the_own_text(self, learn, tmp_path):
        learn("4")
        _, _, err = learn("4", "--check")
        assert "PTO5201" in err
        assert str(tmp_path / "mine" / "04_flags.pto") in err

    def test_text_that_is_no_program(self, learn, tmp_path):
        learn("1")
        (tmp_path / "mine" / lessons()[0].file).write_text("this is no program")
        code, _, err = learn("1", "--check")
        assert code == 1
        assert "Traceback" not in err

    def test_the_check_before_the_lesson(self, learn):
        code, _, err = learn("3", "--check")
        assert code == 2
        assert "ptosim learn 3" in err

    def test_a_lesson_that_there_is_not(self, learn):
        code, _, err = learn("17")
        assert (code, "1 to 16" in err) == (2, True)

    def test_a_broken_file_of_progress(self, learn, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "progress.json").write_text("[]")
        code, _, err = learn()
        assert code == 2
        assert "begin anew" in err


def test_notebooks(tmp_path) -> None:
    assert main(["learn", "--notebook", str(tmp_path)]) == 0
    written = sorted(tmp_path.glob("*.ipynb"))
    assert len(written) == len(lessons())
    first = json.loads(written[0].read_text())
    assert "".join(first["cells"][1]["source"]) == f"%%writefile 01_add.pto\n{lessons()[0].start}"
    assert all(cell["cell_type"] in ("markdown", "code") for cell in first["cells"])
