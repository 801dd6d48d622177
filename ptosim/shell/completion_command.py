"""`ptosim completion SHELL`"""

from __future__ import annotations

import argparse

from ptosim.ground.errors import UsageError
from ptosim.shell.terminal import Terminal

SHELLS = ("bash", "zsh", "fish")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = (
        'bash: eval "$(ptosim completion bash)" in ~/.bashrc; zsh: write it to _ptosim in a folder '
        "of $fpath; fish: write it to ~/.config/fish/completions/ptosim.fish"
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    parser.add_argument("-o", "--output", metavar="FILE", help="write it to FILE")


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
