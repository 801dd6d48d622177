"""Requests that look at the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ptosim.debug.commands.table import find
from ptosim.debug.dap.points import Serving
from ptosim.debug.dap.variables import read_memory
from ptosim.debug.dap.wire import Message
from ptosim.debug.expressions import text_of
from ptosim.debug.names import brief, callers
from ptosim.debug.prompt import completions
from ptosim.debug.sheet import Part, rendered
from ptosim.debug.shell import expression_limits
from ptosim.debug.tables.memory import core_name
from ptosim.ground.errors import UsageError


class StateRequests:
    """Threads (cores), frames, scopes, variables, memory, expressions."""

    def __init__(self, server: Serving) -> None:
        self.server = server

    def handlers(self) -> dict[str, Callable[[Message], Message | None]]:
        """Return the requests by name."""
        return {
            "threads": self._threads,
            "stackTrace": self._stack,
            "scopes": self._scopes,
            "variables": self._variables,
            "evaluate": self._evaluate,
            "readMemory": self._read_memory,
            "source": self._source,
            "completions": self._completions,
            "exceptionInfo": self._exception,
        }

    def _threads(self, arguments: Message) -> Message:
        cores = self.server.run.session.launch.machine.cores
        return {"threads": [{"id": c.index + 1, "name": core_name(c)} for c in cores]}

    def _stack(self, arguments: Message) -> Message:
        session = self.server.run.session
        core = session.focus(int(arguments["threadId"]) - 1)
        ops = [session.current_op(), *callers(core, session.launch.program)]
        source = session.names.source
        places = [
            (f"@{session.names.function(op)}: {brief(op)}", *source.line_column(op.start))
            for op in ops
            if op is not None
        ]
        frames = [
            {"id": core.index * 1000 + level, "name": name, "line": line, "column": column,
             "source": source_of(source.name)}
            for level, (name, line, column) in enumerate(
                places or [("ended", source.line_count(), 1)], 1
            )
        ]  # fmt: skip
        start = int(arguments.get("startFrame") or 0)
        count = int(arguments.get("levels") or 0) or len(frames)
        return {"stackFrames": frames[start : start + count], "totalFrames": len(frames)}

    def _scopes(self, arguments: Message) -> Message:
        run = self.server.run
        run.session.focus((int(arguments["frameId"]) - 1) // 1000)
        return {"scopes": run.variables.scopes()}

    def _variables(self, arguments: Message) -> Message:
        variables = self.server.run.variables
        variables.hexadecimal = bool((arguments.get("format") or {}).get("hex"))
        start, count = int(arguments.get("start") or 0), arguments.get("count")
        if arguments.get("filter") == "named":
            return {"variables": []}
        return {"variables": variables.children(int(arguments["variablesReference"]), start, count)}

    def _evaluate(self, arguments: Message) -> Message:
        """In the console a line is a command, or an expression; elsewhere an expression."""
        run = self.server.run
        text = str(arguments["expression"]).strip()
        if arguments.get("frameId"):
            run.session.focus((int(arguments["frameId"]) - 1) // 1000)
        if arguments.get("context") == "repl" and _is_command(text):
            return {"result": self._command(text), "variablesReference": 0}
        name = text if text.startswith(("%", "$")) else f"%{text}"
        if name.startswith("%") and name[1:].isidentifier():
            entry = run.variables.describe(name, run.session.reading(name))
            entry["result"] = entry.pop("value")
            return {k: v for k, v in entry.items() if k not in ("name", "evaluateName")}
        with expression_limits(run.session):
            return {"result": text_of(run.session.evaluate(text)), "variablesReference": 0}

    def _command(self, text: str) -> str:
        run = self.server.run
        position = run.session.position
        collected: list[Part] = []
        output, run.shell.output = run.shell.output, collected.extend
        try:
            run.shell.execute(text)
        finally:
            run.shell.output = output
        if run.session.position != position:
            self.server.moved_by_command()
        return rendered(collected, run.shell.width(), color=False).rstrip("\n")

    def _read_memory(self, arguments: Message) -> Message:
        return read_memory(
            self.server.run.session,
            str(arguments["memoryReference"]),
            int(arguments.get("offset") or 0),
            int(arguments["count"]),
        )

    def _source(self, arguments: Message) -> Message:
        return {"content": self.server.run.session.names.source.text}

    def _completions(self, arguments: Message) -> Message:
        line = str(arguments["text"])[: int(arguments["column"]) - 1]
        start = max(line.rfind(c) for c in " ([,+-*/<>=") + 1
        found = completions(self.server.run.shell, line, line[start:])
        return {
            "targets": [{"label": w, "start": start, "length": len(line) - start} for w in found]
        }

    def _exception(self, arguments: Message) -> Message:
        last = self.server.run.last
        if last is None or last.finding is None:
            raise UsageError("the run did not stop at a finding")
        finding = last.finding
        return {
            "exceptionId": finding.code,
            "description": finding.message,
            "breakMode": "always",
            "details": {
                "message": "\n".join([finding.message, *finding.notes, finding.help or ""])
            },
        }


def source_of(name: str) -> Message:
    """Return a source as the protocol has it; text without a file is fetched by number."""
    path = Path(name)
    if path.is_file():
        return {"name": path.name, "path": str(path.resolve())}
    return {"name": name, "sourceReference": 1}


def _is_command(text: str) -> bool:
    """True unless the text can only be an expression."""
    if text.startswith(("%", "$", "(", "-")):
        return False
    try:
        find(text.split()[0] if text.split() else "help")
    except UsageError:
        return False
    return True
