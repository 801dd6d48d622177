"""How far the cost laws are from what was published: `python -m tests.accuracy`."""
