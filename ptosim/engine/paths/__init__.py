"""Following every path of a program: numbers carry expressions of what nobody knows before."""
