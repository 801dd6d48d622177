"""Reports: what a run, a check or the ISA data look like as tables and as JSON."""
