"""Certificates of proofs: what was assumed, and an argument that a second checker goes through.

The checker is small and shares nothing with the prover (`search/prove*.py`) but what reads and
executes programs. It runs both texts anew under what the certificate assumes, keeps for each byte
which expression of the inputs it belongs to and which byte of it, tries each form of an operation
on other contents (what its rule does not read must not change its result, and one element of a
source only the results that the rule makes of it), and compares the expressions at the end and
every line of the argument with what the certificate says."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import Diagnostic, Origin, Severity
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.launch.description import kept_arguments
from ptosim.launch.generated import random_scalar
from ptosim.launch.program import LoadedProgram
from ptosim.tools.certificate_rules import Bytes, Unfollowed
from ptosim.tools.certificate_walker import Walker

FORMAT, VERSION = "ptosim certificate", 2
APART = "arguments that do not overlap"
MOST_VALUES, MOST_INSTRUCTIONS = 10_000, 200_000
"""Values of open scalars in one certificate, and instructions of all their launches: minutes. The
checker knows no induction, it goes through each value by itself."""
_KEYS = {"format", "version", "claim", "assumptions", "programs", "argument", "results", "digest"}


def certificate(
    first: Any, second: Any, scalars: Mapping[str, range] | None = None
) -> dict[str, Any]:
    """Return the certificate of two programs that are equal for all contents, and for all values of
    some `scalars`; each has `program`, `entry`, `args` and `block_num`. Raises UsageError with the
    reason where the checker does not come to that end."""
    sides = [_text_of(one) for one in (first, second)]
    assumed, other = (_assumptions(one, scalars or {}) for one in (first, second))
    for part in ("scalars", "blocks"):
        if assumed[part] != other[part]:
            raise UsageError(f"no certificate: the programs have other {part}")
    found = _argued(sides, assumed)
    if isinstance(found, str):
        raise UsageError(f"no certificate: the second checker says that {found}")
    made = {
        "format": FORMAT, "version": VERSION, "claim": _claim(assumed), "assumptions": assumed,
        "programs": sides, "argument": found["argument"], "results": found["results"],
    }  # fmt: skip
    return {**made, "digest": _digest(made)}


def check(given: Any) -> str:
    """Return why a certificate does not hold, '' if it does. Raises UsageError for what is none."""
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        raise UsageError("this is no certificate of ptosim")
    if given.get("version") != VERSION or set(given) != _KEYS:
        return "it has other parts than a certificate of this version"
    rest = {key: value for key, value in given.items() if key != "digest"}
    if given["digest"] != _digest(rest):
        return "it was changed: its digest is another"
    try:
        if given["claim"] != _claim(given["assumptions"]):
            return "it claims something else than it assumes"
        found = _argued(given["programs"], given["assumptions"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        return "a part of it has another form than it should"
    if isinstance(found, str):
        return found
    for part in ("argument", "results"):
        if given[part] != found[part]:
            return f"the {part} of the programs is another than it says"
    return ""


def _digest(parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _claim(assumed: Mapping[str, Any]) -> str:
    scalars = ", ".join(f"{n}={v}" for n, v in assumed["scalars"].items()) or "none"
    shapes = ", ".join(
        f"{n} {'x'.join(map(str, shape))} {dtype}" for n, (dtype, shape) in
        assumed["arrays"].items()
    )  # fmt: skip
    every = [f"{name} in {low}..{high}" + (f":{step}" if step != 1 else "")
             for name, (low, high, step) in assumed["open"].items()]  # fmt: skip
    return (
        f"equal for all contents{' and all ' * bool(every)}{', '.join(every)}; scalars {scalars}; "
        f"shapes {shapes or 'as launched'}; blocks {assumed['blocks']}; {assumed['overlap']}"
    )


def _text_of(one: Any) -> dict[str, Any]:
    front = one.program.front
    source, is_cpp = front.source, front.source.is_cpp
    if source.beside:
        raise UsageError(f"no certificate: the kernel includes {source.beside[0]}, and it is of one"
                         " text each")  # fmt: skip
    text = source.text
    return {
        "name": source.name, "entry": one.program.entry(one.entry), "level": front.level,
        "cpp": is_cpp, "asked": front.entry if is_cpp else None,
        "defines": dict(front.defines or {}),
        "sync": front.sync, "compat": front.compat, "planner": front.settings.planner,
        "legacy": front.legacy,
        "sha256": hashlib.sha256(text.encode()).hexdigest(), "text": text,
    }  # fmt: skip


def _assumptions(one: Any, open_: Mapping[str, range]) -> dict[str, Any]:
    program, args = one.program, one.args
    if args is None:
        args = kept_arguments(program.sidecar) if program.sidecar is not None else {}
    function = program.front.resolved.functions[program.entry(one.entry)]
    types = {v.name: v.type for v in function.args}
    blocks = one.block_num if one.block_num is not None else program._blocks(args)
    scalars, arrays = {}, {}
    if open_:  # arrays are as large as the launch of each value needs, but those that are given
        outputs = {name: np.asarray(a) for name, a in args.items() if np.ndim(a)}
    else:
        outputs = program.run(
            dict(args), entry=one.entry, block_num=blocks, timing=False, sanitize="none"
        ).outputs
    for name, type_ in types.items():
        if isinstance(type_, ScalarType) and name not in open_:
            scalars[name] = args.get(name, random_scalar(type_))
        elif name in outputs:
            arrays[name] = [str(outputs[name].dtype), list(outputs[name].shape)]
    return {
        "target": program.chip, "profile": program.profile.name,
        "switches": dict(sorted(program.profile.switches.items())),
        "scalars": {n: v.item() if isinstance(v, np.generic) else v for n, v in scalars.items()},
        "open": {n: [some.start, some[-1], some.step] for n, some in open_.items()},
        "arrays": arrays, "blocks": blocks, "overlap": APART,
    }  # fmt: skip


# -- the argument ----------------------------------------------------------------------------------


def _argued(sides: Sequence[Mapping[str, Any]], assumed: Mapping[str, Any]) -> dict[str, Any] | str:
    """Go through both programs: the argument and the results, or why there is none."""
    if assumed["overlap"] != APART or len(sides) != 2:
        return "it assumes something else than two programs whose arguments are apart"
    if assumed["profile"] != "hw":
        return "only the profile `hw` has certificates"
    programs = []
    for side in sides:
        if hashlib.sha256(side["text"].encode()).hexdigest() != side["sha256"]:
            return "a text is another than its hash"
        try:
            programs.append(_loaded(side, assumed))
        except (PtosimError, Unfollowed) as problem:
            return f"{side['name']} is not read: {problem}"
    both = [(s, p, ({}, set())) for s, p in zip(sides, programs, strict=True)]
    if not assumed["open"]:
        return _of_one(both, assumed, assumed["scalars"])
    return _of_all(both, assumed)


def _of_all(both: Sequence[tuple[Any, ...]], assumed: Mapping[str, Any]) -> dict[str, Any] | str:
    """Go through the launches of all values of the open scalars."""
    every = [range(low, high + 1, step) for low, high, step in assumed["open"].values()]
    total = math.prod(len(some) for some in every)
    if not 0 < total <= MOST_VALUES:
        return f"it goes through each value by itself, {MOST_VALUES:,} at most, not {total:,}"
    argument, results, executed = [], [], 0
    for at, values in enumerate(product(*every)):
        scalars = {**assumed["scalars"], **dict(zip(assumed["open"], values, strict=True))}
        found = _of_one(both, assumed, scalars)
        if isinstance(found, str):
            return f"with {', '.join(f'{n}={v}' for n, v in scalars.items())} {found}"
        executed += sum(step["times"] for steps in found["argument"] for step in steps)
        if executed > MOST_INSTRUCTIONS:
            return (
                f"it goes through each value by itself: after {executed:,} operations {at + 1:,} of"
                f" {total:,} values are shown"
            )
        argument.append([*values, _digest(found["argument"])])
        results.append(_digest(found["results"]))
    return {"argument": argument, "results": results}


def _of_one(
    both: Sequence[tuple[Any, ...]], assumed: Mapping[str, Any],
    scalars: Mapping[str, Any],
) -> dict[str, Any] | str:  # fmt: skip
    """Go through one launch of both programs: each with its text, and what was tried of it."""
    walked = []
    for side, program, known in both:
        try:
            walked.append(_walked(side, program, assumed, scalars, known))
        except Unfollowed as problem:
            return f"{side['name']}: {problem}"
        except PtosimError as problem:
            return f"{side['name']} does not run: {problem}"
    one, other = walked
    for name in {**one.memory, **other.memory}:
        a, b = one.memory.get(name), other.memory.get(name)
        if a is None or b is None or not a.is_equal(b):
            return f"%{name} is not the same expression in both programs"
    results = {
        name: hashlib.sha256(held.expressions.tobytes() + held.places.tobytes()).hexdigest()
        for name, held in one.memory.items()
    }
    return {"argument": [w.steps for w in walked], "results": results}


@dataclass(frozen=True, slots=True)
class _Walked:
    memory: Mapping[str, Bytes]
    steps: list[dict[str, Any]]


def _loaded(side: Mapping[str, Any], assumed: Mapping[str, Any]) -> LoadedProgram:
    asked = FrontOptions(
        assumed["target"], side["level"], side["sync"], side["compat"], legacy=side["legacy"],
        planner=side["planner"], followed=side["asked"], defines=side["defines"],
    )  # fmt: skip
    source = Source("text.cpp" if side["cpp"] else "text.pto", side["text"])
    front = run_frontend(source, asked)
    if source.is_cpp is not side["cpp"] or source.beside:
        raise Unfollowed("its text is in another language, or not the only one")
    if not source.is_cpp and (side["asked"] is not None or side["defines"]):
        raise Unfollowed("only a kernel in C++ is asked for with macros")
    return LoadedProgram.of(front, "hw", assumed["switches"])


def _walked(
    side: Mapping[str, Any], program: LoadedProgram, assumed: Mapping[str, Any],
    scalars: Mapping[str, Any], known: tuple[dict[Any, Any], set[Any]],
) -> _Walked:  # fmt: skip
    """Follow a launch; `known` has what was tried in others of the same program."""
    args: dict[str, Any] = dict(scalars)
    args.update((n, _ones(dtype, shape)) for n, (dtype, shape) in assumed["arrays"].items())
    walker = Walker(str(side["sha256"]), _digest(assumed), known)
    result = program.run(
        args, entry=side["entry"], block_num=assumed["blocks"], timing=False, observers=[walker]
    )
    wrong = next(filter(_is_doubt, result.findings), None)
    if wrong is not None:
        raise Unfollowed(f"{wrong.code}: {wrong.message}")
    names = {b.number: b.name for b in walker.machine.buffers}
    memory = {names[p[1]]: held for p, held in walker.memories.items() if p[0] == "gm"}
    module = program.front.resolved.module
    steps = [
        {"line": module.span(op).line, "op": op.name, "rule": rule, "times": tally[0],
         "reads": tally[1], "writes": tally[2]}
        for (op, rule), tally in walker.steps.items()
    ]  # fmt: skip
    return _Walked(memory, sorted(steps, key=lambda s: (s["line"], s["op"], s["rule"])))


def _ones(dtype: str, shape: Sequence[int]) -> np.ndarray:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return np.ones([int(n) for n in shape], kind)


def _is_doubt(found: Diagnostic) -> bool:
    if found.is_error:
        return True
    is_hardware = found.code.startswith(("PTO5", "PTO7101")) and found.origin is Origin.HARDWARE
    return is_hardware and found.severity > Severity.NOTE
