"""How a row takes over what its templates say, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.dates import DEFAULT_DATE
from ptosim.ground.isa.rows import _dates, _make, _Row
from ptosim.ground.isa.schema import OpDef, Role, Status

TEMPLATES: dict[str, dict[str, Any]] = {
    "base": {
        "summary": "s.",
        "status": "exact",
        "source": "x",
        "pipe": "V",
        "rules": ["row_major(src)"],
    },
    "one": {
        "like": "base",
        "ins": "src:tile",
        "attrs": "a:int=1",
        "rules": ["nonzero_valid(src)"],
        "notes": ["n1"],
    },
    "two": {"like": "base", "ins": "other:tile", "outs": "dst:tile", "notes": ["n2"]},
}


def row(date: str = DEFAULT_DATE, **keys: Any) -> OpDef:
    return _make("pto.t", _Row("test", keys, TEMPLATES, _dates(keys, TEMPLATES)), date)


def test_the_first_template_wins_and_rules_and_notes_add_up_once() -> None:
    made = row(like="one two", rules=["unboxed(src)"])
    (variant,) = made.variants
    assert [o.name for o in variant.operands] == ["src", "dst"]
    rules = [rule.expr for rule in variant.rules]
    assert rules == ["row_major(src)", "nonzero_valid(src)", "unboxed(src)"]
    assert made.notes == ("n1", "n2")


def test_a_row_says_itself_what_confirms_it() -> None:
    """What a template says of the values of others holds for no row that does not say it too."""
    assert row(like="one").status == {"a2a3": Status.UNVERIFIED, "a5": Status.UNVERIFIED}
    made = row(like="one", basis="data")
    assert (made.status["a5"], made.basis) == (Status.EXACT, "data")
    refused = row(like="one", status="parse-only")
    assert (refused.status["a5"], refused.basis) == (Status.PARSE_ONLY, None)


def test_a_plus_adds_to_a_list_of_the_template() -> None:
    made = row(like="one", attrs="+ b:bool!", outs="^dst:tile, ~tmp:tile?")
    assert list(made.attrs) == ["a", "b"]
    assert made.attrs["a"].default == 1
    assert made.attrs["b"].required
    roles = {o.name: (o.role, o.optional) for o in made.variants[0].outs}
    assert roles == {"dst": (Role.OUT, False), "tmp": (Role.SCRATCH, True)}


def test_a_variant_has_the_rows_lists_and_its_own() -> None:
    made = row(
        like="one",
        elements=[{"of": "src", "both": "f32"}],
        variant=[
            {"name": "a", "when": "a == 1", "rules": [{"expr": "unboxed(src)", "on": "a5"}]},
            {"name": "b", "ins": "src:tile, scalar:scalar"},
        ],
    )
    first, second = made.variants
    assert first.when == "a == 1"
    assert first.rules[-1].targets == ("a5",)
    assert len(first.elements) == len(second.elements) == 1
    assert [o.name for o in second.ins] == ["src", "scalar"]


def test_a_missing_target_is_absent_and_pipes_default_to_the_assemblers() -> None:
    made = row(like="one", basis="rule", targets=["a5"], absent="t is only on A5", pipe="@src")
    assert (made.status["a2a3"], made.status["a5"]) == ("absent", "exact")
    assert made.hazard_pipes == made.pipes
    assert row(like="one", hazard_pipe="FIX").hazard_pipes[0].pipe == "FIX"


@pytest.mark.parametrize(
    "keys",
    [
        {"like": "nothing"},
        {"like": "one", "colour": "red"},
        {"ins": "src:tile"},
        {"like": "one", "ins": "src:tiles"},
        {"like": "one", "ins": "src"},
        {"like": "one", "attrs": "a"},
        {"like": "one", "status": "perfect"},
        {"like": "one", "elements": [{"of": "src", "both": ["f32 f16"]}]},
    ],
)
def test_wrong_rows_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(IsaDataError):
        row(**keys)
