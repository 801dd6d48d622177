"""A client of the protocol: sends requests, collects answers and events, and holds every message
against the published schema."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import threading
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from ptosim.debug.dap.server import Server
from ptosim.debug.dap.variables import read_message

Message = dict[str, Any]
PATIENCE = 60


@cache
def schema() -> Message:
    """The protocol's schema, as debugpy carries it."""
    spec = importlib.util.find_spec("debugpy")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations)))
    path = folder / "_vendored/pydevd/_pydevd_bundle/_debug_adapter/debugProtocol.json"
    return json.loads(path.read_text())


@cache
def validator(definition: str) -> jsonschema.Draft4Validator:
    assert definition in schema()["definitions"], definition
    return jsonschema.Draft4Validator({**schema(), "$ref": f"#/definitions/{definition}"})


def check(message: Message) -> None:
    """Hold a message against its definition."""
    kind = message["type"]
    name = message["event"] if kind == "event" else message["command"]
    definition = f"{name[0].upper()}{name[1:]}{kind.capitalize()}"
    if kind == "response" and not message["success"]:
        definition = "ErrorResponse"
    validator(definition).validate(message)


class _Heard(Server):
    """A server whose listening thread can be waited for."""

    listener: threading.Thread

    def _listen(self) -> None:
        self.listener = threading.current_thread()
        super()._listen()


class Client:
    """A server in a thread of its own, and the editor's end of it."""

    def __init__(self) -> None:
        read, self._requests = os.pipe()
        answers, write = os.pipe()
        self._heard, self._said = os.fdopen(read, "rb"), os.fdopen(write, "wb")
        self.server = _Heard(self._heard, self._said)
        self.thread = threading.Thread(target=self.server.serve, daemon=True)
        self.thread.start()
        self._stream = os.fdopen(answers, "rb")
        self._inbox: queue.Queue[Message | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._seq = 0
        self.events: list[Message] = []

    def _listen(self) -> None:
        while (message := read_message(self._stream)) is not None:
            self._inbox.put(message)

    def raw(self, data: bytes) -> None:
        """Send bytes."""
        os.write(self._requests, data)

    def send(self, command: str, checked: bool = True, **arguments: Any) -> int:
        """Send a request and return its number."""
        self._seq += 1
        message = {"seq": self._seq, "type": "request", "command": command, "arguments": arguments}
        if checked:
            check(message)
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return self._seq

    def _next(self) -> Message:
        message = self._inbox.get(timeout=PATIENCE)
        assert message is not None
        check(message)
        return message

    def answer(self, number: int) -> Message:
        """Wait for the answer to a request; events on the way are kept."""
        while (message := self._next())["type"] != "response" or message["request_seq"] != number:
            self.events.append(message)
        return message

    def request(self, command: str, **arguments: Any) -> Message:
        """Send a request and return the body of its answer."""
        answer = self.answer(self.send(command, **arguments))
        assert answer["success"], answer
        return answer.get("body", {})

    def refused(self, command: str, **arguments: Any) -> str:
        """Send a request that fails and return what is said about it."""
        answer = self.answer(self.send(command, checked=False, **arguments))
        assert not answer["success"]
        return answer["message"]

    def event(self, name: str) -> Message:
        """Wait for an event and return its body."""
        while True:
            for message in self.events:
                if message["event"] == name:
                    self.events.remove(message)
                    return message.get("body", {})
            message = self._next()
            assert message["type"] == "event", message
            self.events.append(message)

    def start(self, program: str | Path, **attributes: Any) -> None:
        """Initialise, launch, and wait until breakpoints can be set."""
        self.request(
            "initialize", adapterID="ptosim", linesStartAt1=True, supportsVariablePaging=True
        )
        self.request("launch", program=str(program), **attributes)
        self.event("initialized")

    def leave(self) -> None:
        """Disconnect; the server ends. No thread is left: a process that has others does not fork,
        and what later tests ask of copies of it would go another way."""
        self.request("disconnect")
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        os.close(self._requests)
        self.server.listener.join(PATIENCE)
        self._said.close()
        self._listener.join(PATIENCE)
        assert not self.server.listener.is_alive()
        assert not self._listener.is_alive()
        self._heard.close()
        self._stream.close()
