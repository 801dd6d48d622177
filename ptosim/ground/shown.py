"""What results look like in a notebook. Pictures are made by the views, which know the results and
not the other way round: they are asked for by name when a notebook shows something."""

from __future__ import annotations

import importlib


class Shown:
    """An object that notebooks show as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the object as HTML (the protocol of IPython)."""
        return importlib.import_module("ptosim.views.notebook").html_of(self)
