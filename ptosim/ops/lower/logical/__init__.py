"""Logical vectors (`pto.vmi`) as vectors of the registers that there are: layouts, instructions,
pressure."""
