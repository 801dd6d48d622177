"""Cures as edits: what a reader would write where a rule is broken, tried before it is offered."""
