"""Requests that set breakpoints. Each replaces what the same request set before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptosim.debug.dap.wire import Message
from ptosim.debug.filters import catch
from ptosim.debug.shell import expression_limits
from ptosim.debug.stops import Breakpoint
from ptosim.ground.errors import UsageError
from ptosim.ground.whole_numbers import whole

if TYPE_CHECKING:
    from ptosim.debug.dap.server import Server


class PointRequests:
    """Breakpoints on lines, functions, data and findings."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def handlers(self) -> dict[str, Callable[[Message], Message | None]]:
        """Return the requests by name."""
        return {
            "setBreakpoints": self._lines,
            "setFunctionBreakpoints": self._functions,
            "setDataBreakpoints": self._data,
            "setExceptionBreakpoints": self._exceptions,
            "dataBreakpointInfo": self._data_info,
        }

    def _replace(self, key: str) -> list[int]:
        """Remove what a request set before; return the list for the new ones."""
        run = self.server.run
        for number in run.ids.get(key, []):
            if number in run.session.points.all:
                run.session.points.remove(number)
        run.ids[key] = []
        return run.ids[key]

    def _lines(self, arguments: Message) -> Message:
        source = arguments["source"]
        ids = self._replace(f"lines {source.get('path', source.get('name'))}")
        wanted = arguments.get("breakpoints", [])
        if not self._is_ours(source):
            text = "another file than the program"
            return {"breakpoints": [{"verified": False, "message": text} for _ in wanted]}
        return {"breakpoints": [self._set(str(b["line"]), b, ids) for b in wanted]}

    def _is_ours(self, source: Message) -> bool:
        own = Path(self.server.run.session.names.source.name)
        path = source.get("path")
        return path is None or Path(path).name == own.name

    def _functions(self, arguments: Message) -> Message:
        ids = self._replace("functions")
        wanted = arguments["breakpoints"]
        return {"breakpoints": [self._set(b["name"], b, ids) for b in wanted]}

    def _set(self, place: str, wanted: Message, ids: list[int]) -> Message:
        """Set one breakpoint; what is wrong with it is said in its answer."""
        session = self.server.run.session
        try:
            point = session.break_(place)
            ids.append(point.number)
            self._details(point, wanted)
        except UsageError as problem:
            if ids and ids[-1] in session.points.all and session.points.all[ids[-1]].text == place:
                session.points.remove(ids.pop())
            return {"verified": False, "message": str(problem)}
        answer: Message = {"id": point.number, "verified": True}
        if point.pcs:
            op = session.launch.program.insts[min(point.pcs)].op
            if op is not None:
                answer["line"] = session.names.line(op)
        if session.locations.note:
            answer["message"] = session.locations.note
        return answer

    def _details(self, point: Breakpoint, wanted: Message) -> None:
        """Condition, hit count, message."""
        session = self.server.run.session
        try:
            if wanted.get("condition"):
                point.condition = session.condition(wanted["condition"])
            if wanted.get("hitCondition"):
                count = whole(str(wanted["hitCondition"]).strip().lstrip(">=").strip())
                if not count:
                    raise UsageError(f"`{wanted['hitCondition']}` is not a number of hits")
                point.ignore = count - 1
            if wanted.get("logMessage"):
                point.log = self._logger(str(wanted["logMessage"]))
        except UsageError:
            session.points.remove(point.number)
            raise

    def _logger(self, message: str) -> Callable[[], None]:
        """Write a message with `{expressions}` in it instead of stopping."""
        from ptosim.debug.commands.asking import text_of

        session = self.server.run.session
        parts = message.split("{")

        def log() -> None:
            text = parts[0]
            for part in parts[1:]:
                expression, _, rest = part.partition("}")
                try:
                    text += text_of(session.evaluate(expression)) + rest
                except UsageError as problem:
                    text += f"({problem}){rest}"
            self.server.say(f"{text}\n")

        return log

    # -- data -------------------------------------------------------------------------------------

    def _data_info(self, arguments: Message) -> Message:
        run = self.server.run
        name = str(arguments["name"])
        reference = arguments.get("variablesReference")
        if reference:
            name = run.variables.expression(int(reference), name)
        try:
            with expression_limits(run.session):
                run.session.evaluate(name)
        except UsageError as problem:
            return {"dataId": None, "description": str(problem)}
        return {"dataId": name, "description": name, "accessTypes": ["write"], "canPersist": True}

    def _data(self, arguments: Message) -> Message:
        def watch(wanted: Message) -> Breakpoint:
            if wanted.get("accessType", "write") != "write":
                raise UsageError("only writes can be watched")
            point = self.server.run.session.watch(wanted["dataId"])
            self._details(point, wanted)
            return point

        return self._answers("data", watch, arguments["breakpoints"])

    def _answers(
        self, key: str, make: Callable[[Any], Breakpoint], wanted: Iterable[Any]
    ) -> Message:
        """Set breakpoints; what is wrong with one is said in its answer."""
        ids = self._replace(key)
        answers: list[Message] = []
        for each in wanted:
            try:
                ids.append(make(each).number)
                answers.append({"id": ids[-1], "verified": True})
            except UsageError as problem:
                answers.append({"verified": False, "message": str(problem)})
        return {"breakpoints": answers}

    # -- findings ---------------------------------------------------------------------------------

    def _exceptions(self, arguments: Message) -> Message:
        session = self.server.run.session
        return self._answers("exceptions", lambda n: catch(session, n), arguments["filters"])
