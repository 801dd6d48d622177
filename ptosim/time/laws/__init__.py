"""Cost laws: from the shapes of an operation and the figures of a target to its cost.

A law is a function of a `Request`; which law an operation follows is a row of
`isa/costs/classes.toml`.
"""
