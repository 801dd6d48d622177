"""Two kernels of one cluster, written line by line: one for the cube core, one for vector cores."""

from __future__ import annotations

from typing import Any

import ptosim
from tests.support.text import Kernel, date_of

KINDS = ("cube", "vector")


class Pair:
    """Functions @cube_kernel and @vector_kernel with the same arguments; `run` launches them."""

    def __init__(self, target: str, **load_options: Any) -> None:
        self.target = target
        self.load_options = load_options
        self.cube, self.vector = Kernel(target), Kernel(target)

    def text(self, extra: str = "") -> str:
        """The module; `extra` is the text of further functions."""
        args = {**self.cube.args, **self.vector.args}
        listed = ", ".join(f"%{name}: {type_}" for name, type_ in args.items())
        functions = []
        for kind, kernel in zip(KINDS, (self.cube, self.vector), strict=True):
            constants = [
                f"{name} = arith.constant {value} : {type_}"
                for (value, type_), name in kernel.constants.items()
            ]
            body = "\n".join(f"    {line}" for line in [*constants, *kernel.lines, "return"])
            functions.append(
                f"  func.func @{kind}_kernel({listed}) attributes "
                f"{{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{\n{body}\n  }}\n"
            )
        return (
            f'module attributes {{pto.target_arch = "{self.target}"}} {{\n'
            f"{''.join(functions)}{extra}}}\n"
        )

    def run(
        self, args: dict[str, Any], entry: str = "cube_kernel", **options: Any
    ) -> ptosim.Result:
        """Load and run both."""
        text = self.text()
        choices = {"compat": date_of(text), **self.load_options}
        return ptosim.load(text, **choices).run(args, entry=entry, **options)


def loop(kernel: Kernel, count: int, variable: str = "%i") -> None:
    """Begin a loop; end it with a line `}`."""
    bounds = (kernel.const(0), kernel.const(count), kernel.const(1))
    kernel.line(f"scf.for {variable} = {bounds[0]} to {bounds[1]} step {bounds[2]} {{")
