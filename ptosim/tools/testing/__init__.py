"""Programs with sidecars as tests: what `ptosim test` and the pytest plug-in do."""
