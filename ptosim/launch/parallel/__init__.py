"""Blocks that do not depend on each other: executed on the cores of one of them, bound once, and in
several processes."""
