"""A board's own figures: profiler tables compared with the cost laws, and figures refitted to them.

`profiler` reads the files, `matching` makes points of their rows, `fit` finds the figures that the
points determine, `calibration` puts it together.
"""
