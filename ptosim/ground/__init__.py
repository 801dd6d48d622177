"""The version of the package: part of reports, of caches and of exported findings."""

__version__ = "0.1.0"
