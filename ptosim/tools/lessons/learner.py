"""What a learner has: a folder with the programs and a file of what is done and told."""

from __future__ import annotations

import json
from pathlib import Path

from ptosim.ground.errors import UsageError
from ptosim.ground.files import is_file, read_text, write_file
from ptosim.ground.records import dataclass, field
from ptosim.tools.lessons.course import Lesson, lessons

PROGRESS = "progress.json"


@dataclass(slots=True)
class Learner:
    """The folder, the lessons that are done, and how many hints of each were told."""

    folder: Path
    done: set[int] = field(default_factory=set)
    hints: dict[int, int] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path) -> Learner:
        """Read a folder, which need not exist yet. Raises UsageError for a broken file."""
        path = folder / PROGRESS
        if not is_file(path):
            return cls(folder)
        try:
            kept = json.loads(read_text(path))
            return cls(folder, set(kept["done"]), {int(n): h for n, h in kept["hints"].items()})
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise UsageError(
                f"{path} is no file of progress", help="remove it to begin anew"
            ) from problem

    def save(self) -> None:
        """Write the file."""
        kept = {"done": sorted(self.done), "hints": {str(n): h for n, h in self.hints.items()}}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.folder / PROGRESS, json.dumps(kept, indent=1) + "\n")

    def path(self, lesson: Lesson) -> Path:
        """Return where the program of a lesson is."""
        return self.folder / lesson.file

    def begin(self, lesson: Lesson, *, anew: bool = False) -> bool:
        """Put the program to complete into the folder; False if it is there already."""
        if is_file(self.path(lesson)) and not anew:
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.path(lesson), lesson.start)
        return True

    def finish(self, lesson: Lesson) -> None:
        """Note that a lesson is done."""
        self.done.add(lesson.number)
        self.save()

    def next_hint(self, lesson: Lesson) -> str:
        """Return the next hint, the last one again where all were told."""
        told = min(self.hints.get(lesson.number, 0) + 1, len(lesson.hints))
        self.hints[lesson.number] = told
        self.save()
        return f"Hint {told} of {len(lesson.hints)}: {lesson.hints[told - 1]}"

    @property
    def next_lesson(self) -> Lesson | None:
        """The first lesson that is not done."""
        return next((each for each in lessons() if each.number not in self.done), None)
