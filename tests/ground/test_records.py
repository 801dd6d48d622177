"""Dataclasses and named tuples that are made late behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import pprint
import typing
from dataclasses import KW_ONLY

import pytest

from ptosim.ground import records


@records.dataclass(frozen=True, slots=True)
class Late:
    """A record made late."""

    first: int
    second: list[int] = records.field(default_factory=list, compare=False)
    _: KW_ONLY
    third: str = records.field(default="x", repr=False)
    fourth: int = records.field(default=4, init=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """The same record, made by the standard library."""

    first: int
    second: list[int] = dataclasses.field(default_factory=list, compare=False)
    _: KW_ONLY
    third: str = dataclasses.field(default="x", repr=False)
    fourth: int = dataclasses.field(default=4, init=False)


@records.dataclass(slots=True)
class Open:
    """A record that may change."""

    value: int


@records.dataclass(slots=True)
class Derived(Open):
    """A derived record with a step after its making."""

    more: int = records.field(init=False)

    def __post_init__(self) -> None:
        self.more = self.value + 1


@pytest.mark.parametrize(
    "make", [lambda c: c(1), lambda c: c(1, [2]), lambda c: c(first=3, third="y")]
)
def test_fields_values_and_text_are_those_of_the_standard_library(make):
    late, standard = make(Late), make(Standard)
    assert dataclasses.asdict(late) == dataclasses.asdict(standard)
    assert repr(late) == repr(standard).replace("Standard", "Late")
    assert Late.__match_args__ == Standard.__match_args__ == ("first", "second")


@pytest.mark.parametrize("arguments", [(), (1, [], "z"), (1, 2, 3, 4)])
def test_wrong_arguments_are_refused_at_the_first_object_too(arguments):
    with pytest.raises(TypeError):
        Late(*arguments)
    with pytest.raises(TypeError):
        Late(1, fifth=4)


def test_equal_records_have_equal_hashes_and_other_classes_are_never_equal():
    assert Late(1, [1]) == Late(1, [2])  # the second field does not take part
    assert hash(Late(1, [1])) == hash(Late(1, [2]))
    assert Late(1) != Late(2)
    assert Late(1) != Standard(1)
    assert len({Late(1), Late(1), Late(1, third="y")}) == 2


def test_a_frozen_record_refuses_to_change():
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'first'"):
        Late(1).first = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Late(1).first


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_a_copy_is_equal(again):
    record = Late(1, [2, 3], third="y")
    assert again(record) == record
    assert again(record).second == [2, 3]


def test_a_field_that_is_not_that_of_records_is_refused():
    with pytest.raises(TypeError, match="that of"):

        @records.dataclass()
        class Wrong:
            """A record with a field of the standard library."""

            value: list[int] = dataclasses.field(default_factory=list)


def test_replace_is_that_of_the_standard_library():
    late, standard = Late(1, [5], third="y"), Standard(1, [5], third="y")
    for replace in (dataclasses.replace, records.replace):
        changed = replace(late, first=7)
        assert repr(changed) == repr(dataclasses.replace(standard, first=7)).replace(
            "Standard", "Late"
        )
        assert changed.third == "y"
        with pytest.raises(ValueError, match="fourth"):
            replace(late, fourth=5)
        with pytest.raises(TypeError):
            replace(late, fifth=5)


def test_replace_and_match():
    match dataclasses.replace(Late(1, [5]), first=7):
        case Late(first, second):
            assert (first, second) == (7, [5])


def test_a_step_after_making_and_a_factory_for_each_object():
    assert Derived(1) == Derived(1)
    assert Derived(1).more == 2
    assert Late(1).second is not Late(1).second


def test_records_that_may_change_have_no_hash():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open(1))


def test_the_standard_library_knows_the_fields():
    assert dataclasses.is_dataclass(Derived)
    late, standard = dataclasses.fields(Late), dataclasses.fields(Standard)
    assert [repr(f) for f in late] == [repr(f) for f in standard]
    assert [f.name for f in dataclasses.fields(Derived(1))] == ["value", "more"]
    assert "Late(first=1" in pprint.pformat(Late(1))


class Pair(records.NamedTuple):
    """A tuple that is made late."""

    left: int
    right: list[int] | None = None

    @property
    def both(self) -> tuple[object, ...]:
        """Both of them."""
        return (self.left, self.right)


class StandardPair(typing.NamedTuple):
    """The same tuple, made by the standard library."""

    left: int
    right: list[int] | None = None


def test_a_named_tuple_is_that_of_the_standard_library():
    pair, standard = Pair(1), StandardPair(1)
    assert pair == standard == (1, None)
    assert repr(pair) == repr(standard).replace("StandardPair", "Pair")
    assert (Pair._fields, Pair._field_defaults) == (("left", "right"), {"right": None})
    assert pair._replace(right=[2]).both == (1, [2])
    assert pickle.loads(pickle.dumps(pair)) == copy.deepcopy(pair) == pair
    assert typing.get_type_hints(Pair) == typing.get_type_hints(StandardPair)
    assert (Pair.__doc__, Pair.__qualname__) == ("A tuple that is made late.", "Pair")
    match pair:
        case Pair(left, right=None):
            assert left == 1
    with pytest.raises(TypeError):
        Pair()
