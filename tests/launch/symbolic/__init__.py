"""Runs without values."""
