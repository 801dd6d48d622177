"""Types of the MLIR `quant` dialect and the types that contain them, printable as MLIR prints
them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ptosim.ground.isa.data import read_toml
from ptosim.ground.records import dataclass
from ptosim.machine.quant.mlir.cursor import float_text

if TYPE_CHECKING:  # `ptosim check` reads these types and must not wait for NumPy
    import numpy as np

Dim = int | None


@lru_cache(maxsize=1)
def data() -> dict[str, Any]:
    """Return the tables of `isa/quant/mlir.toml`."""
    return read_toml("quant/mlir.toml")


def float_array(name: str) -> np.dtype | None:
    """Return the NumPy type that holds a float type, or None if there is none here: whether it has
    80 or 128 bits depends on the machine."""
    row = data()["float"].get(name, {})
    array = row.get("array")
    if array is None:
        return None
    import ml_dtypes
    import numpy as np

    found = np.dtype(getattr(ml_dtypes, array, array))
    if "mantissa" in row and np.finfo(found).nmant != row["mantissa"]:
        return None
    return found


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """How values are stored in memory.

    `word` is the spelling (`i8`, `u8`, `si8`, `ui8`, `f8E4M3FN`), `bits` the width, `low` and
    `high` the range, `full` what the range is if it is not written.
    """

    word: str
    bits: int
    signed: bool
    is_float: bool
    low: int
    high: int
    full: tuple[int, int]

    @property
    def is_narrowed(self) -> bool:
        """True if the range is smaller than the type's."""
        return (self.low, self.high) != self.full

    @property
    def kind(self) -> str:
        """The signless integer type (or the float type) of the bits."""
        return self.word if self.is_float else f"i{self.bits}"

    def __str__(self) -> str:
        return f"{self.word}<{self.low}:{self.high}>" if self.is_narrowed else self.word


class QuantType:
    """Base of the types of the dialect."""

    __slots__ = ()
    expressed: Any  # a word, or None
    storage: Any  # a StorageSpec, or None


@dataclass(frozen=True, slots=True)
class UniformType(QuantType):
    """`!quant.uniform`: per layer (`axes` None), per axis, or per block (`axes` maps axis to block
    size).

    `scales` and `zeros` have one entry (per layer), are vectors (per axis), or have the rank of the
    tensor (per block). Scales are f64.
    """

    storage: StorageSpec
    expressed: str
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int | None = None
    blocks: tuple[tuple[int, int], ...] | None = None
    shape: tuple[int, ...] = ()

    @property
    def granularity(self) -> str:
        """per-layer, per-axis or sub-channel."""
        if self.blocks is not None:
            return "sub-channel"
        return "per-layer" if self.axis is None else "per-axis"

    def scale_array(self) -> np.ndarray:
        """Return the scales in f64, in the shape that `axis` and `blocks` give them."""
        import numpy as np

        return np.array(self.scales, np.float64).reshape(self._shape())

    def zero_array(self) -> np.ndarray:
        """Return the zero points in the same shape."""
        import numpy as np

        return np.array(self.zeros, np.int64).reshape(self._shape())

    def _shape(self) -> tuple[int, ...]:
        if self.blocks is not None:
            return self.shape
        return () if self.axis is None else (len(self.scales),)

    def __str__(self) -> str:
        head = f"!quant.uniform<{self.storage}:{self.expressed}"
        pairs = [_pair(s, z) for s, z in zip(self.scales, self.zeros, strict=True)]
        if self.blocks is not None:
            axes = ", ".join(f"{a}:{b}" for a, b in self.blocks)
            return f"{head}:{{{axes}}}, {_nest(pairs, self.shape)}>"
        if self.axis is not None:
            return f"{head}:{self.axis}, {{{','.join(pairs)}}}>"
        return f"{head}, {pairs[0]}>"


def _pair(scale: float, zero: int) -> str:
    return float_text(scale) + (f":{zero}" if zero else "")


def _nest(pairs: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return pairs[0]
    step = len(pairs) // shape[0] if shape[0] else 0
    inner = [_nest(pairs[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return "{" + ", ".join(inner) + "}"


@dataclass(frozen=True, slots=True)
class AnyType(QuantType):
    """`!quant.any`: stored and expressed type, nothing on how they relate."""

    storage: StorageSpec
    expressed: Any  # a word, or None

    def __str__(self) -> str:
        return f"!quant.any<{self.storage}{f':{self.expressed}' if self.expressed else ''}>"


@dataclass(frozen=True, slots=True)
class CalibratedType(QuantType):
    """`!quant.calibrated`: an expressed type with the range that was seen."""

    expressed: str
    low: float
    high: float
    storage: None = None

    def __str__(self) -> str:
        return (
            f"!quant.calibrated<{self.expressed}<{float_text(self.low)}:{float_text(self.high)}>>"
        )


@dataclass(frozen=True, slots=True)
class QuantileType(QuantType):
    """`!quant.quantile`: every stored value has its own place in a table."""

    storage: StorageSpec
    expressed: str
    values: tuple[float, ...]

    def __str__(self) -> str:
        table = ",".join(float_text(v) for v in self.values)
        narrow = f", <{self.storage.low}:{self.storage.high}>" if self.storage.is_narrowed else ""
        return f"!quant.quantile<{self.storage.word}:{self.expressed}, {{{table}}}{narrow}>"


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin scalar type by its spelling."""

    name: str

    @property
    def is_float(self) -> bool:
        """True for the float types."""
        return self.name in data()["float"]

    @property
    def is_signless(self) -> bool:
        """True for iN."""
        return self.name.startswith("i") and self.name[1:].isdigit()

    def __str__(self) -> str:
        return self.name


Element = Builtin | QuantType


@dataclass(frozen=True, slots=True)
class Container:
    """A scalar (`kind` empty), or a tensor, vector, memref or PTO tile of elements.

    `dims` is None for an unranked tensor.
    """

    kind: str
    dims: tuple[Dim, ...] | None
    element: Element

    @property
    def is_scalar(self) -> bool:
        """True if there is no container."""
        return not self.kind

    def __str__(self) -> str:
        if self.is_scalar:
            return str(self.element)
        if self.dims is None:
            return f"{self.kind}<*x{self.element}>"
        dims = "".join(f"{'?' if d is None else d}x" for d in self.dims)
        prefix = "!pto." if self.kind == "tile" else ""
        return f"{prefix}{self.kind}<{dims}{self.element}>"
