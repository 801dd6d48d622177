"""The option on how many processes something is done in."""

from __future__ import annotations

import argparse

from ptosim.shell.options import from_one


def add_jobs(group: argparse._ActionsContainer, what: str) -> None:
    """The option on how many processes something is done in."""
    group.add_argument(
        "-j", "--jobs", type=from_one, metavar="N",
        help=f"processes that {what} (default: the cores of the machine, where there is enough to "
        "do); results are the same for any number",
    )  # fmt: skip
