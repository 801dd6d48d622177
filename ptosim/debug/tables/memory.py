"""Memory: bytes as hex or as elements, the map of a space, pipes, events, FIFOs, scalars, cores."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ptosim.debug.names import brief, number, space_of
from ptosim.debug.reading import Place, numbers_of, read_bytes
from ptosim.debug.session import NO_TIMING, Debugger
from ptosim.debug.sheet import Sheet, short_number
from ptosim.debug.tables.tiles import live_tiles
from ptosim.engine.core.bound import Bound, Inst, Region
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.types import DType, ScalarType
from ptosim.ground.isa.schema import plain_dtypes
from ptosim.ground.records import NamedTuple
from ptosim.machine.core import Core
from ptosim.machine.pages import unpack_nibbles, view_dtype
from ptosim.ops.base.orders import Sync, WaitFlag

LINES = 16
_C_TYPES = {
    "float16": "f16", "half": "f16", "float32": "f32", "float": "f32", "bfloat16": "bf16",
    "double": "f64", "float64": "f64", "int8_t": "i8", "int16_t": "i16", "int32_t": "i32",
    "int64_t": "i64", "uint8_t": "ui8", "uint16_t": "ui16", "uint32_t": "ui32", "uint64_t": "ui64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "ui8", "uint16": "ui16",
    "uint32": "ui32", "uint64": "ui64", "int": "i32", "fp8_e4m3": "f8E4M3FN", "fp8_e5m2": "f8E5M2",
}  # fmt: skip


def element_type(word: str) -> DType:
    """Return the element type of a word, ours or that of C. Raises UsageError."""
    name = word.removesuffix("[]")
    found = plain_dtypes().get(_C_TYPES.get(name, name))
    if found is None:
        known = ", ".join(plain_dtypes())
        raise UsageError(f"unknown element type `{word}`", help=f"known: {known}")
    return found


# -- bytes -----------------------------------------------------------------------------------------


def memory(session: Debugger, text: str) -> Sheet:
    """`SPACE RANGE [TYPE]`: bytes as hex, or as elements of a type."""
    words = text.split()
    kind = None
    if len(words) > 2 and words[-1].removesuffix("[]") in {*plain_dtypes(), *_C_TYPES}:
        kind = element_type(words.pop())
    place = session.range(" ".join(words))
    return dump(session, place, kind, 0)


def examine(session: Debugger, text: str) -> Sheet:
    """`-m SPACE -f TYPE[] ADDR [-s BYTES] [-c LINES]`: the spelling of msDebug."""
    words, options, plain = text.split(), {}, []
    while words:
        word = words.pop(0)
        if re.fullmatch(r"-[mfsc]", word):
            if not words:
                raise UsageError(f"`{word}` needs a value")
            options[word] = words.pop(0)
        else:
            plain.append(word)
    if len(plain) != 1:
        raise UsageError("an address is missing", help="x -m UB -f float16[] 0x100 -s 64")
    space = space_of(options.get("-m", "ub"), session.launch.machine)
    kind = element_type(options["-f"]) if "-f" in options else None
    size = number(options.get("-s", "32"), "number of bytes")
    count = number(options.get("-c", "1"), "number of lines")
    if size < 1 or count < 1:
        raise UsageError("-s and -c take positive numbers")
    if space == "gm":
        raise UsageError("global memory is looked at by name", help="mem gm NAME 0+64 f16")
    place = session.range(f"{space} {plain[0]}+{size * count}")
    return dump(session, place, kind, size)


def dump(session: Debugger, place: Place, kind: DType | None, per_line: int) -> Sheet:
    """Return the bytes of a place, in lines."""
    data = read_bytes(session.launch.machine, place)
    title = str(place)
    if place.space == "gm":
        title = title.replace(
            f"buffer {place.core}", session.launch.machine.buffers[place.core].name
        )
    if kind is None:
        return _hex(title, place, data)
    step = per_line or max(8 * kind.bits // 8, 4)
    sheet = Sheet(f"{title} as {kind}", ("address", "elements"))
    limit = LINES * 4
    for at in range(0, min(len(data), step * limit), step):
        items = " ".join(short_number(v) for v in _elements(data[at : at + step], kind))
        sheet.add(f"{place.start + at:#07x}", items)
    if len(data) > step * limit:
        sheet.notes.append(f"{len(data) - step * limit} more bytes")
    return sheet


def _elements(data: bytes, kind: DType) -> np.ndarray:
    if kind.bits == 4:
        return numbers_of(unpack_nibbles(np.frombuffer(data, np.uint8)), kind)
    size = kind.bits // 8
    whole = data[: len(data) // size * size]
    return numbers_of(np.frombuffer(whole, view_dtype(kind)), kind)


def _hex(title: str, place: Place, data: bytes) -> Sheet:
    sheet = Sheet(title, ("address", "bytes", "text"), wrap=False)
    limit = LINES * 64
    for at in range(0, min(len(data), limit), 16):
        line = data[at : at + 16]
        text = "".join(chr(b) if 32 <= b < 127 else "." for b in line)
        sheet.add(f"{place.start + at:#07x}", line.hex(" "), text)
    if len(data) > limit:
        sheet.notes.append(f"{len(data) - limit} more bytes")
    return sheet


def memory_map(session: Debugger, text: str) -> Sheet:
    """What is where: every tile of the program by space and address, and how full the space
    is."""
    machine = session.launch.machine.definition
    placed = session.launch.prepared.placement.placed
    wanted = space_of(text, session.launch.machine) if text.strip() else None
    live = {(r.type.loc, r.addr): name for name, r in live_tiles(session)}
    sheet = Sheet(
        "memory map", ("space", "addresses", ">bytes", "what", "state"),
        whole=("what",), drop=("state", "bytes"),
    )  # fmt: skip
    sheet.empty = "the program places nothing" + (f" in {wanted}" if wanted else "")
    for name, definition in machine.spaces.items():
        here = sorted((p for p in placed if p.space == name), key=lambda p: p.addr)
        if wanted not in (None, name) or not here:
            continue
        for p in here:
            end = p.addr + p.bytes
            owner = live.get((name, p.addr))
            what = p.name if p.name.startswith("%") or " " in p.name else f"%{p.name}"
            shared = [f"%{o.name}" for o in here if p.addr < o.addr < end]
            state = ["live"] if owner is not None else []
            state += [f"overlaps {', '.join(shared)}"] if shared else []
            sheet.add(
                name, f"{p.addr:#07x}..{end - 1:#07x}", p.bytes, what, ", ".join(state),
                mark=bool(shared),
            )  # fmt: skip
        used = session.launch.prepared.placement.used(name)
        filled = round(40 * used / definition.bytes)
        bar = "#" * filled + "." * (40 - filled)
        percent = 100 * used / definition.bytes
        sheet.notes.append(
            f"{name:8} [{bar}] {used:,} of {definition.bytes:,} bytes, {percent:.0f}%"
        )
    return sheet


# -- pipes, events ---------------------------------------------------------------------------------


def sync_of(bound: Bound | Region | None) -> Sync | None:
    """Return what an operation in a queue orders; None for one that orders nothing."""
    binding = getattr(bound, "binding", None)
    return binding.sync if binding is not None else None


def waits_for(sync: Sync | None) -> str:
    """Return in words what an operation waits for."""
    return "the operation in front of it" if sync is None else str(sync)


def pipes(session: Debugger) -> Sheet:
    """Every pipe of the core: what it waits at, for what, and how much is queued after it."""
    sheet = Sheet(
        f"pipes of {core_name(session.core)}", ("pipe", ">line", "at", "waits for", ">queued")
    )
    for state in pipe_states(session):
        sheet.add(*state[:-1], mark=state.is_waiting)
    sheet.notes.append(NO_TIMING + ": what is issued and need not wait is done")
    return sheet


class PipeState(NamedTuple):
    """What a pipe is at, for what it waits, and how many operations are queued after that."""

    name: str
    line: str
    at: str
    waits: str = ""
    queued: int | str = ""
    is_waiting: bool = False


def pipe_states(session: Debugger) -> list[PipeState]:
    """Return the state of every pipe of the core, by name."""
    core = session.core
    names = {i.pipe for i in session.launch.program.insts if i.semantics is not None}
    found = []
    for pipe in sorted(names | set(core.queues) | {"S"}):
        queue = core.queues.get(pipe, ())
        stalled = core.stalled is not None and pipe == "S"
        head = core.stalled if stalled else queue[0] if queue else None
        if head is not None:
            inst, bound = head
            queued = 0 if stalled else len(queue) - 1
            what = (_line(session, inst), brief(inst.op), waits_for(sync_of(bound)))
            found.append(PipeState(pipe, *what, queued, not stalled))
        else:
            at = _scalar_unit(session, core) if pipe == "S" else "idle"
            found.append(PipeState(pipe, "", at))
    return found


def _scalar_unit(session: Debugger, core: Core) -> str:
    inst = session.current(core)
    if core.halted:
        return "ended"
    return f"next: {brief(inst.op)}" if inst is not None else "waits for its pipes"


def _line(session: Debugger, inst: Inst) -> str:
    return str(session.names.line(inst.op)) if inst.op is not None else ""


def core_name(core: Core) -> str:
    """Return `core 2 (vector 1 of block 0)`."""
    kind = "all kinds" if core.kind == "any" else core.kind
    number = f" {core.sub_block}" if core.kind == "vector" else ""
    return f"core {core.index} ({kind}{number} of block {core.block})"


def events(session: Debugger) -> Sheet:
    """Flags that are set, who waits for which, buffer tokens, cross-core flags."""
    core = session.core
    sheet = Sheet(f"events of {core_name(core)}", ("event", ">id", ">set", "waited for by"))
    sheet.empty = "no event is set, and nothing waits for one"
    waiting: dict[Any, str] = {}
    for inst, bound in _heads(core):
        sync = sync_of(bound)
        if isinstance(sync, WaitFlag):
            waiting[tuple(sync)] = f"line {_line(session, inst)}"
    counts = {key: count for key, count in core.flags.items() if count}
    for key in sorted({*counts, *waiting}, key=str):
        source, target, event = key
        count = counts.get(key, 0)
        sheet.add(f"{source} -> {target}", event, count, waiting.get(key, ""), mark=not count)
    for token, held in sorted(core.tokens.items()):
        if held:
            sheet.add("buffer token", token, "held", "")
    for key, count in sorted(core.cluster.counters.items(), key=str):
        if count:
            sheet.add(f"cross-core {key[0]}", ",".join(map(str, key[1:])), count, "")
    return sheet


def _heads(core: Core) -> list[tuple[Any, Any]]:
    heads = [queue[0] for queue in core.queues.values()]
    return [core.stalled, *heads] if core.stalled is not None else heads


def fifos(session: Debugger) -> Sheet:
    """The FIFOs between the cores of the block."""
    cluster = session.core.cluster
    columns = ("fifo", "direction", ">vector core", ">pushed", ">popped", ">freed")
    sheet = Sheet(f"FIFOs of block {cluster.block}", columns, empty="no FIFO has been used")
    for (fifo, direction, vector), share in cluster.fifos.shares.items():
        name = " ".join(map(str, fifo))
        sheet.add(name, direction, vector, share.pushed, share.popped, share.freed)
    return sheet


# -- scalars, cores --------------------------------------------------------------------------------


def scalars(session: Debugger) -> Sheet:
    """Every scalar of the function, and the registers of the core."""
    columns = ("name", "type", ">value", ">line")
    sheet = Sheet("scalars", columns, empty="no scalar has a value yet")
    program, core = session.launch.program, session.core
    for value in session.values():
        content = core.slots[program.slots[value]]
        if isinstance(value.type, ScalarType) and content is not None:
            line = session.names.source.line_column(value.start)[0]
            sheet.add(f"%{value.name}", str(value.type), content, line)
    registers = {name: held for name, held in core.registers.items() if held}
    for name, held in registers.items():
        sheet.add(name, "register", f"{held:#x}", "")
    return sheet


def cores(session: Debugger) -> Sheet:
    """Every core: where it is."""
    sheet = Sheet("cores", (">core", "kind", ">block", ">line", "next", "state"))
    turn = session.walker.turn
    for core in session.launch.machine.cores:
        inst = session.current(core)
        state = "ended" if core.halted else "waits" if core.stalled is not None else ""
        state = "has the turn" if core is turn else state
        sheet.add(
            core.index, core.kind, core.block, _line(session, inst) if inst else "",
            brief(inst.op) if inst else "", state, mark=core is session.core,
        )  # fmt: skip
    return sheet
