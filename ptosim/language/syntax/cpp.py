"""Calls of the C++ library, as its manual pages show them, as lines of a snippet.

`TQuant<0, MxQuantAlg::OcpMxFp8E4M3>(dst, src, &exp, &max, &scaling);` is `pto.tquant` with its
attributes, `TASSIGN(tile, 0x0)` a placement, `Tile<TileType::Vec, float, 16, 64> a;` the type of a
name. Each line becomes one line, so that places stay lines; what is no call is left as it is.

The destination comes first in C++. Tiles without a declaration have the abstract type of the pages,
which arguments make concrete."""

from __future__ import annotations

import re
from collections.abc import Callable

from ptosim.ground.records import dataclass, replace
from ptosim.ground.words import whole

_CALL = re.compile(
    r"^(?P<indent>\s*)(?:(?:(?:const\s+)?(?:pto::)?(?:RecordEvent|auto)\s+)?(?P<event>\w+)\s*=\s*)?"
    r"(?:pto::)?(?P<name>T[A-Za-z_]\w*)\s*(?:<(?P<params>[^;%()]*)>)?\s*"
    r"\((?P<args>[^;%]*)\)\s*;(?P<rest>.*)$"
)
_EVENTS = re.compile(
    r"^\s*(?:(?:pto::)?(?P<type>RecordEvent|WaitEvents|Event(?:<[^;<>]*>)?)\s+(?P<names>\w+(?:\s*,\s*\w+)*)"
    r"|(?:pto::)?(?:WaitEvents|TSYNC)\s*\([\w\s,&]*\))\s*;\s*(?://.*)?$"
)
_TILE = re.compile(
    r"^(?P<indent>\s*)(?:using\s+(?P<alias>\w+)\s*=\s*)?(?:pto::)?Tile\s*<(?P<params>[^;%]*)>\s*"
    r"(?P<names>[^<>;]*);(?P<rest>.*)$"
)
_ALIASED = re.compile(r"^(?P<indent>\s*)(?P<alias>\w+)\s+(?P<names>\w[^;<>=%]*);(?P<rest>.*)$")
_NAME = re.compile(r"(\w+)\s*(?:\(([^()]*)\))?")
_ABSTRACT = "!pto.tile_buf<...>"
_ELEMENTS = {
    "float": "f32", "float32_t": "f32", "half": "f16", "float16_t": "f16", "bfloat16_t": "bf16",
    "int8_t": "i8", "uint8_t": "ui8", "int16_t": "i16", "uint16_t": "ui16", "int32_t": "i32",
    "uint32_t": "ui32", "float8_e4m3_t": "f8E4M3FN", "float8_e5m2_t": "f8E5M2",
    "float8_e8m0_t": "f8E8M0FNU", "float4_e2m1x2_t": "!pto.f4E2M1x2", "hifloat8_t": "hif8",
}  # fmt: skip
_LAYOUTS = {"rowmajor": "row_major", "colmajor": "col_major", "nonebox": "none_box"}
_SPACES = {"vec", "mat", "left", "right", "acc", "bias", "scaling"}


@dataclass(frozen=True, slots=True)
class _Tile:
    """The type of a tile as C++ has it."""

    loc: str
    dtype: str
    rows: int
    cols: int
    valid: tuple[str, str] | None = None
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512

    def __str__(self) -> str:
        v_row, v_col = self.valid or (str(self.rows), str(self.cols))
        return (
            f"!pto.tile_buf<loc={self.loc}, dtype={self.dtype}, rows={self.rows}, "
            f"cols={self.cols}, v_row={v_row}, v_col={v_col}, blayout={self.blayout}, "
            f"slayout={self.slayout}, fractal={self.fractal}, pad=0>"
        )


def from_cpp(text: str) -> str | None:
    """Return the snippet that a text of C++ calls is; None for any other text."""
    if "%" in text or "(" not in text or "func." in text:
        return None
    lines = text.split("\n")
    calls = [found for line in lines if (found := _CALL.match(line))]
    if not calls:
        return None
    return "\n".join(map(_Translator(calls).line, lines))


@dataclass(slots=True)
class _Call:
    """A call in parts: operands, and those of them that are given by address."""

    name: str
    params: list[str]
    args: list[str]
    pointers: set[str]


class _Translator:
    def __init__(self, calls: list[re.Match[str]]) -> None:
        self.types: dict[str, _Tile] = {}
        self.aliases: dict[str, _Tile] = {}
        self.events: set[str] = {found["event"] for found in calls if found["event"]}
        """Names of what calls give back, and of declared events: they are no operands, the order
        of the lines is kept."""
        self.converts = any(found["name"].lower() == "tmov" for found in calls)

    def line(self, line: str) -> str:
        """Return the line of the snippet."""
        found = _CALL.match(line)
        if found is not None:
            made = _call_of(found)
            made.args[1:] = [a for a in made.args[1:] if a not in self.events]
            if not made.args:
                return line  # no operation is without operands: the parser says what it is
            return f"{found['indent']}{self._statement(made)}{_comment(found['rest'])}"
        if self._declares(line) or self._waits(line):
            return f"// {line.strip()}"
        return line

    def _waits(self, line: str) -> bool:
        """True for a line that declares events, or waits for some."""
        found = _EVENTS.match(line)
        if found is None:
            return False
        if found["type"]:
            self.events |= {n.strip() for n in found["names"].split(",")}
        return True

    # -- declarations -----------------------------------------------------------------------------

    def _declares(self, line: str) -> bool:
        found = _TILE.match(line)
        if found is not None:
            type_ = _tile_type([p.strip() for p in found["params"].split(",")])
            if type_ is None:
                return False
            if found["alias"]:
                self.aliases[found["alias"]] = type_
                return True
            return self._named(found["names"], type_)
        found = _ALIASED.match(line)
        if found is None or found["alias"] not in self.aliases:
            return False
        return self._named(found["names"], self.aliases[found["alias"]])

    def _named(self, names: str, type_: _Tile) -> bool:
        for name, extents in _NAME.findall(names):
            valid = [e.strip() for e in extents.split(",")] if extents else []
            is_valid = len(valid) == 2 and all(whole(v) is not None for v in valid)
            self.types[name] = replace(type_, valid=(valid[0], valid[1])) if is_valid else type_
        return True

    # -- statements -------------------------------------------------------------------------------

    def _statement(self, call: _Call) -> str:
        makers: dict[str, Callable[[_Call], str]] = {
            "tassign": self._assign, "tquant": self._quantise, "tmov": self._move,
        }  # fmt: skip
        return makers.get(call.name, self._plain)(call)

    def _assign(self, call: _Call) -> str:
        place = call.args[1] if len(call.args) > 1 else "0x0"
        return f"pto.tassign %{call.args[0]}, @tile({place})"

    def _plain(self, call: _Call) -> str:
        return self._dps(call.name, call.args[1:], call.args[:1], {})

    def _quantise(self, call: _Call) -> str:
        attributes: dict[str, str] = {}
        for param in call.params:
            kind, _, member = param.rpartition("::")
            if kind.endswith("MxQuantAlg"):
                attributes["mx_alg"] = f"#pto<mx_quant_alg {member}>"
            elif kind.endswith("QuantType"):
                attributes["quant_type"] = f"#pto<quant_type {member}>"
            elif kind.endswith("QuantScaleAlg"):
                attributes["scale_alg"] = f"#pto<quant_scale_alg {member}>"
            elif param in ("0", "1"):
                attributes["grp_axis"] = param
        dst, *rest = call.args
        if not rest:
            return self._dps("tquant", [], [dst], attributes)
        if "INT8" in attributes.get("quant_type", "INT8" if "mx_alg" not in attributes else ""):
            return self._integers(call, dst, rest, attributes)
        src, *beside = rest
        self._mx_types(dst, src, beside, attributes)
        return self._dps("tquant", [src], [dst, *beside], attributes)

    def _integers(self, call: _Call, dst: str, rest: list[str], attributes: dict[str, str]) -> str:
        """(dst, src, scale[, tmp][, &offset]): what is given by address is the offset, as is the
        fourth argument of the asymmetric form."""
        ins, outs = rest[:2], [dst]
        for name in rest[2:]:
            if name == "nullptr":
                continue
            alone = len(rest) == 3 and "ASYM" in attributes.get("quant_type", "")
            (ins if name in call.pointers or alone else outs).append(name)
        return self._dps("tquant", ins, outs, attributes)

    def _mx_types(self, dst: str, src: str, beside: list[str], attributes: dict[str, str]) -> None:
        """Types of tiles that follow from a declared source, where exponents or codes are moved
        later."""
        source = self.types.get(src)
        if not self.converts or source is None:
            return
        is_fp4 = "fp4" in str(attributes).lower()
        self.types.setdefault(dst, replace(source, dtype="f4E2M1FN" if is_fp4 else "f8E4M3FN"))
        down = attributes.get("grp_axis") == "0"
        groups = (source.rows // 32, source.cols) if down else (source.rows, source.cols // 32)
        for name, element in zip(beside, ("ui8", source.dtype, source.dtype, "ui8"), strict=False):
            self.types.setdefault(name, _Tile("vec", element, *groups))

    def _move(self, call: _Call) -> str:
        """Two operands: codes to the fractal layout of the cube, where they are those of a TQUANT;
        three: exponents to the zigzag layout."""
        dst, src, *tmp = call.args if len(call.args) > 1 else (*call.args, "")
        attributes = {"grp_axis": "0"} if "0" in call.params else {}
        source = self.types.get(src)
        if source is not None and tmp:
            rows, cols = source.rows, source.cols
            shape = (cols, rows) if attributes else (rows, cols)
            zigzag = _Tile("vec", source.dtype, *shape, slayout="row_major", fractal=32)
            self.types.setdefault(dst, zigzag)
            self.types.setdefault(tmp[0], _Tile("vec", source.dtype, 1, max(rows * cols * 2, 256)))
        elif source is not None:
            fractal = replace(source, blayout="col_major", slayout="row_major")
            self.types.setdefault(dst, fractal)
        return self._dps("tmov", [src, *tmp], [dst], attributes)

    def _dps(self, name: str, ins: list[str], outs: list[str], attributes: dict[str, str]) -> str:
        groups = []
        for word, names in (("ins", ins), ("outs", outs)):
            values = ", ".join(f"%{n}" if not _is_number(n) else n for n in names)
            types = ", ".join(str(self.types.get(n, _ABSTRACT)) for n in names)
            groups.append(f"{word}({values} : {types})")
        tail = ", ".join(f"{key} = {value}" for key, value in attributes.items())
        return f"pto.{name} {' '.join(groups)}" + (f" {{{tail}}}" if tail else "")


def _call_of(found: re.Match[str]) -> _Call:
    params = [p.strip() for p in (found["params"] or "").split(",") if p.strip()]
    given = [a.strip() for a in found["args"].split(",") if a.strip()]
    args = [a.lstrip("&").strip() for a in given]
    pointers = {a for a, g in zip(args, given, strict=True) if g.startswith("&")}
    return _Call(found["name"].lower(), params, args, pointers)


def _tile_type(params: list[str]) -> _Tile | None:
    """`TileType::Vec, float, 16, 64, BLayout::RowMajor, 16, 64, SLayout::NoneBox, 512`; -1 is an
    extent of run time."""
    words = [p.rpartition("::")[2] for p in params]
    if len(words) < 4 or words[0].lower() not in _SPACES or words[1] not in _ELEMENTS:
        return None
    rows, cols = whole(words[2]), whole(words[3])
    if rows is None or cols is None:
        return None
    layouts = {
        kind.lower(): _LAYOUTS.get(word.lower(), "row_major")
        for kind, _, word in (p.rpartition("::") for p in params[4:])
        if kind.lower() in ("blayout", "slayout")
    }
    numbers = [w for w in words[4:] if whole(w.removeprefix("-")) is not None]
    valid = None
    if len(numbers) >= 2:
        row, col = ("?" if n.startswith("-") else n for n in numbers[:2])
        valid = (row, col)
    return _Tile(
        words[0].lower(), _ELEMENTS[words[1]], rows, cols, valid,
        layouts.get("blayout", "row_major"), layouts.get("slayout", "none_box"),
        int(numbers[2]) if len(numbers) > 2 else 512,
    )  # fmt: skip


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or text[:1] == "-"


def _comment(rest: str) -> str:
    rest = rest.strip()
    return f"  {rest}" if rest else ""
