"""A TopK of rows with the structure of the shipped `programs/sort/topk.pto`, as `.pto` text: a vector core
takes one row after the other, sorts it by 32, and merges runs of 32, 128 and 512 records; the largest
values and their places are taken apart and stored."""

from __future__ import annotations

COLUMNS = 1024
"""Values of a row: two runs of 512 records are left for the last merge."""

_TYPES = {
    "scores": f"vec, 1x{COLUMNS}xf32",
    "places": f"vec, 1x{COLUMNS}xi32",
    "records": f"vec, 1x{2 * COLUMNS}xf32",
    "half": f"vec, 1x{COLUMNS}xf32",
    "best": f"vec, 1x{COLUMNS}xf32",
}


def text(rows: int) -> str:
    """Return the program of one core that has so many rows. All values of the last merge are stored."""
    out = [f"!{name} = !pto.tile_buf<{type_}>" for name, type_ in _TYPES.items()]
    numbers = (0, 1, rows, COLUMNS)
    one = f"1x{COLUMNS}xf32"
    every = f"{rows}x{COLUMNS}xf32"
    out += [
        "func.func @topk(%x: !pto.ptr<f32>, %v: !pto.ptr<f32>, %p: !pto.ptr<f32>) {",
        *(f"%c{n} = arith.constant {n} : index" for n in dict.fromkeys(numbers)),
        "%zero = arith.constant 0 : i32",
        "%run32 = arith.constant 64 : i32",
        "%run128 = arith.constant 256 : i32",
        "%taken = arith.constant dense<[0, 0]> : vector<2xi16>",
        *(
            f"%v{name} = pto.make_tensor_view %{name}, shape = [%c{rows}, %c{COLUMNS}], strides = [%c{COLUMNS}, %c1] : !pto.tensor_view<{every}>"
            for name in "xvp"
        ),
        *(
            f"%{name} = pto.alloc_tile : !{type_}"
            for name, type_ in (
                ("scores", "scores"),
                ("places", "places"),
                ("one", "records"),
                ("two", "records"),
                ("tmp", "records"),
                ("best", "best"),
                ("words", "best"),
            )
        ),
        "pto.tci ins(%zero : i32) outs(%places : !places)",
        f"scf.for %r = %c0 to %c{rows} step %c1 {{",
        *(
            f"%p{name} = pto.partition_view %v{name}, offsets = [%r, %c0], sizes = [%c1, %c{COLUMNS}] : !pto.tensor_view<{every}> -> !pto.partition_tensor_view<{one}>"
            for name in "xvp"
        ),
        f"pto.tload ins(%px : !pto.partition_tensor_view<{one}>) outs(%scores : !scores)",
        "pto.tsort32 ins(%scores, %places : !scores, !places) outs(%one : !records)",
        "pto.tmrgsort ins(%one, %run32 : !records, i32) outs(%two : !records)",
        "pto.tmrgsort ins(%two, %run128 : !records, i32) outs(%one : !records)",
        *(
            f"%{name} = pto.subview %one[%c0, {at}] sizes [1, {COLUMNS}] : !records"
            for name, at in (("a", "%c0"), ("b", f"%c{COLUMNS}"))
        ),
        "pto.tmrgsort ins(%a, %b, %tmp {exhausted = false} : !half, !half, !records) outs(%two, %taken : !records, vector<2xi16>)",
    ]
    for mask, name, view in (("P0101", "best", "v"), ("P1010", "words", "p")):
        out += [
            f'pto.tgather ins(%two, {{maskPattern = #pto.mask_pattern<{mask}>}} : !records, "row") outs(%{name} : !best)',
            f"pto.tstore ins(%{name} : !best) outs(%p{view} : !pto.partition_tensor_view<{one}>)",
        ]
    return "\n".join([*out, "}", "return", "}"])
