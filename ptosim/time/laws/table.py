"""Laws by the name that `isa/costs/classes.toml` gives them, for each target."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.time.laws import casts as convert
from ptosim.time.laws import cube, functions, items, micro, repeats, sequence, spread, transfer
from ptosim.time.laws import tquant as quant
from ptosim.time.laws.cost import Cost
from ptosim.time.laws.request import Request

Law = Callable[[Request], Cost]

_BOTH: dict[str, Law] = {
    "items": items.items,
    "load": transfer.load,
    "store": transfer.store,
    "move": transfer.move,
    "fifo": transfer.fifo,
    "remote": transfer.remote,
    "product": cube.product,
    "register": cube.register,
    "sync": cube.sync,
    "sequence": sequence.sequence,
    "micro_copy": micro.copy,
    "micro_fractals": micro.fractals,
    "micro_load": micro.load,
    "micro_scales": micro.scales,
    "micro_fill": micro.fill,
    "micro_fixpipe": micro.fixpipe,
    "micro_product": micro.product,
    "micro_sort": micro.sort,
}

LAWS: dict[str, dict[str, Law]] = {
    "a2a3": {
        **_BOTH,
        "tile_tile": repeats.tile_tile,
        "flat": repeats.flat,
        "scalar": repeats.scalar,
        "by_rows": repeats.by_rows,
        "row_broadcast": spread.row_broadcast,
        "rows": repeats.rows,
        "columns": repeats.columns,
        "gather": repeats.gather,
        "convert": convert.convert_repeats,
        "micro_repeats": micro.repeats,
        "quant": quant.quant_repeats,
    },
    "a5": {
        **_BOTH,
        "function": functions.function,
        "row_function": functions.row_function,
        "row_reduce": functions.row_reduce,
        "col_reduce": functions.col_reduce,
        "gather": functions.gather,
        "select": functions.select,
        "convert": convert.convert_function,
        "quant": quant.quant_function,
    },
}
