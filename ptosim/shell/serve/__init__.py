"""Commands for many callers from one process that has loaded everything already."""
