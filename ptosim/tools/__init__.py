"""What is made of programs and runs: the Python API, search, tests, the editor's server."""
