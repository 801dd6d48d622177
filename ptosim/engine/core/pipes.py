"""Which pipe executes an operation, and in which pipe's queue it waits."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation
from ptosim.passes.verify.rule_views import environment, evaluate
from ptosim.semantics.sync.flags import pipe_word


def pipe_of(op: Operation, target: str) -> str:
    """Return the pipe that executes an operation: MTE2, V, …; `ALL` for a barrier of all pipes. The
    scalar unit's is one that only the run knows."""
    pipes = op.definition.pipes if op.definition is not None else ()
    names = environment(op, target) if len(pipes) > 1 else {}
    chosen = next(p.pipe for p in pipes if p.when is None or evaluate(p.when, names))
    if chosen.startswith("@"):
        operand = op.bound[chosen[1:]]
        return pipe_word(operand.const) if operand.const is not None else "S"
    return chosen


READERS = {"vector": "V", "cube": "MTE1"}
"""Pipes that read what a FIFO hands to a core, by its kind."""


def issue_pipe(op: Operation, target: str) -> str:
    """Return the pipe in whose queue an operation waits. The scalar unit itself waits at barriers
    of all pipes, and on A2/A3 at flags from other cores. A free waits for what its core's pipe has
    still to read."""
    row = op.definition
    if row is not None and row.fifo == "free" and row.side is not None:
        return READERS[row.side]
    pipe = pipe_of(op, target)
    return "S" if pipe == "ALL" else pipe
