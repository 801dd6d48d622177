"""`ptosim completion SHELL`"""

from __future__ import annotations

import argparse

from ptosim.ground.errors import UsageError
from ptosim.shell.command import command
from ptosim.shell.options import option
from ptosim.shell.terminal import Terminal

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    option("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish"),
    option("-o", "--output", metavar="FILE", help="write it to FILE"),
    epilog='bash: eval "$(ptosim completion bash)" in ~/.bashrc; zsh: write it to _ptosim in a '
    "folder of $fpath; fish: write it to ~/.config/fish/completions/ptosim.fish",
)
def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the script of a shell. Raises UsageError without the library that writes it."""
    try:
        import shtab
    except ImportError as problem:
        raise UsageError(
            "completion needs shtab, which is not installed",
            help="pip install 'ptosim[completion]'",
        ) from problem
    from ptosim.shell.main import whole_parser

    terminal.write(shtab.complete(whole_parser(), shell=options.shell))
    return 0
