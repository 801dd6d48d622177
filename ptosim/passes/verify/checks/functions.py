"""Functions: entries return nothing, calls do not recurse, regions end as they must."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Sink, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.source import Source, Span


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report entry functions with results and recursive calls."""
    source = resolved.module.source
    calls = {f.name: _callees(f) for f in resolved.functions.values() if f.has_body}
    called = {callee for callees in calls.values() for callee, _ in callees}
    for function in resolved.functions.values():
        if _is_entry(function, called) and function.results:
            sink.emit(_nonvoid(function, source))
    _recursion(calls, source, sink)


def _is_entry(function: Function, called: set[str]) -> bool:
    if not function.has_body or function.private or function.implicit:
        return False
    return "pto.entry" in function.op.attrs or function.name not in called


def _callees(function: Function) -> list[tuple[str, Operation]]:
    return [
        (op.bound["callee"], op) for op in function.op.walk() if op.name == "func.call" and op.bound
    ]


def _nonvoid(function: Function, source: Source):
    return finding(
        "PTO1011",
        f"PTO entry functions must return void: `@{function.name}` returns "
        f"{', '.join(map(str, function.results))}",
        Span(source, function.op.start, function.op.name_end),
        notes=("an entry is launched on every core; nothing takes its results",),
        help="store the result through a pointer argument, or make the function private",
    )


def _recursion(calls: dict[str, list[tuple[str, Operation]]], source: Source, sink: Sink) -> None:
    done: set[str] = set()
    for root in calls:
        path: list[str] = []
        stack = [(root, iter(calls[root]))] if root not in done else []
        path = [root]
        while stack:
            name, callees = stack[-1]
            step = next(callees, None)
            if step is None:
                done.add(name)
                stack.pop()
                path.pop()
                continue
            callee, op = step
            if callee in path:
                sink.emit(_recursive(op, callee, source))
            elif callee in calls and callee not in done:
                stack.append((callee, iter(calls[callee])))
                path.append(callee)


def _recursive(op: Operation, callee: str, source: Source):
    return finding(
        "PTO1012",
        f"recursive function calls are not supported for EmitC C++ emission (call of `@{callee}`)",
        Span(source, op.start, op.end),
        notes=("a device function has no call stack of its own",),
        help="write the recursion as a loop",
    )
