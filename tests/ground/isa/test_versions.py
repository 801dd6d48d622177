"""When operations of August appeared: each name of the table is one that April does not have."""

from __future__ import annotations

from fnmatch import fnmatchcase

import ptosim
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.isa.rows import isa


def test_names_are_new_operations():
    old, new = isa("2026-04"), isa("2026-08")
    names = [n.removeprefix("pto.") for n in new.names() if new.get(n) and not old.get(n)]
    for row in read_toml("versions.toml")["version"]:
        for pattern in row["names"].split():
            assert any(fnmatchcase(name, pattern) for name in names), pattern


def test_the_cure_says_the_version():
    text = "func.func @k() { pto.cmo.cacheinvalid all #pto.address_space<gm> return }"
    found = ptosim.check(text, target="a5", compat="2026-04")
    assert any("needs PTOAS 0.50 (2026-07-08)" in (f.help or "") for f in found)
