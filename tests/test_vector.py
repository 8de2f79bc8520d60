"""The shared vector: older states stay valid when newer ones grow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_time.vector import Vector


@given(st.lists(st.tuples(st.integers(0, 30), st.integers())))
def test_every_state_equals_its_list_however_states_branch(steps: list[tuple[int, int]]) -> None:
    states: list[tuple[Vector[int], list[int]]] = [(Vector(), [])]
    for chosen, item in steps:
        vector, model = states[chosen % len(states)]
        states.append((vector.append(item), [*model, item]))
    for vector, model in states:
        assert list(vector) == vector.to_list() == model
        assert len(vector) == len(model)
        assert vector[1:3] == model[1:3]
        if model:
            assert vector[-1] == model[-1]


def test_appending_to_the_newest_state_copies_nothing() -> None:
    first = Vector([1])
    second = first.append(2)
    assert first._items is second._items


def test_an_index_past_a_states_end_is_refused_though_the_shared_list_is_longer() -> None:
    first = Vector([1])
    first.append(2)
    with pytest.raises(IndexError):
        first[1]
    assert first == Vector([1])
    assert hash(first) == hash(Vector([7]))
    assert repr(first) == "Vector([1])"
