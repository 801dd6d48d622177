"""Cures as edits: what a reader would write where a rule is broken, tried before it is offered."""

FOLLOWED = ("PTO5006", "PTO6401", "PTO7104", "PTO7108")
"""Of what following a program finds: mistaken events, tiles over each other."""
