"""Executes decoded programs: control, pipes, flags, cores, with time and watched."""
