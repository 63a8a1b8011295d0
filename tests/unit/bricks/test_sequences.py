"""Algorithms 1 and 2: which layers make a brick."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.bricks.sequences import (
    INPUT,
    Needs,
    find_model_subgraphs,
    is_network,
    parse_granularity,
)
from inferbench_tasks.errors import InputError


def chain(length: int) -> list[Needs]:
    return [Needs(1, frozenset({index - 1 if index else INPUT})) for index in range(length)]


@st.composite
def dags(draw: st.DrawFn) -> list[Needs]:
    """Layers in topological order, each with up to three tensors of layers before it or of the model's inputs."""
    layers = []
    for index in range(draw(st.integers(1, 40))):
        near = st.integers(max(index - 3, INPUT), index - 1) if index else st.just(INPUT)
        sources = draw(st.lists(near, min_size=0, max_size=3))
        layers.append(Needs(len(sources), frozenset(sources)))
    return layers


@given(dags(), st.data())
def test_every_layer_is_in_exactly_one_brick(needs: list[Needs], data: st.DataObject) -> None:
    """Whatever the graph and the granularity: in order, none left out, none twice, none too long."""
    granularity = data.draw(st.one_of(st.none(), st.integers(1, len(needs))))
    windows = find_model_subgraphs(needs, granularity)
    assert [layer for window in windows for layer in window] == list(range(len(needs)))
    assert all(len(window) <= (granularity or len(needs)) for window in windows)


@given(dags(), st.data())
def test_a_longer_brick_is_a_simple_path_or_the_whole(needs: list[Needs], data: st.DataObject) -> None:
    """No layer in it takes anything of a layer but the one before it."""
    for window in find_model_subgraphs(needs, data.draw(st.integers(1, len(needs)))):
        if len(window) in (1, len(needs)):
            continue
        assert needs[window.start].tensors <= 1
        assert all(needs[layer].layers == {layer - 1} for layer in list(window)[1:])


@pytest.mark.parametrize("granularity", [1, 2, 3, 4, 7])
def test_a_chain_is_cut_into_equal_bricks(granularity: int) -> None:
    """Seven layers in a row: as many full bricks as fit, and one of the rest."""
    lengths = [len(window) for window in find_model_subgraphs(chain(7), granularity)]
    full, rest = divmod(7, granularity)
    assert lengths == [granularity] * full + [rest] * bool(rest)


def test_an_addition_is_alone_and_the_window_moves_on_by_one() -> None:
    """Add(2, 0) after 0 > 1 > 2: with three layers no window from 1 to 3 is a network, from 4 on it is again."""
    needs = [*chain(3), Needs(2, frozenset({2, 0})), Needs(1, frozenset({3})), Needs(1, frozenset({4}))]
    assert find_model_subgraphs(needs, 2) == [range(0, 2), range(2, 3), range(3, 4), range(4, 6)]
    assert find_model_subgraphs(needs, 4) == [range(0, 1), range(1, 2), range(2, 3), range(3, 4), range(4, 6)]


def test_two_tensors_of_one_layer_may_begin_no_path() -> None:
    """What takes two tensors from outside is fed twice: a layer by itself."""
    needs = [Needs(1, frozenset({INPUT})), Needs(2, frozenset({0})), Needs(1, frozenset({1}))]
    assert not is_network(needs, 1, 3)
    assert is_network(needs, 0, 2)


def test_whole_is_one_brick_of_any_graph() -> None:
    """A granularity of all layers, or none given, makes one brick though it is no path."""
    needs = [Needs(1, frozenset({INPUT})), Needs(2, frozenset({INPUT, 0}))]
    assert find_model_subgraphs(needs, None) == find_model_subgraphs(needs, 2) == [range(0, 2)]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "all", "1e3", "nan", "1001", "9" * 5_000, "\u0663"])
def test_what_is_no_number_of_layers_is_refused(text: str) -> None:
    """The message says what is allowed."""
    with pytest.raises(InputError, match="1, 2, 3, ... up to the model's layers, or whole"):
        parse_granularity(text)


def test_more_layers_than_there_are_is_refused() -> None:
    """Whoever wants all of them says whole."""
    with pytest.raises(InputError, match="allowed: 1 to 3, or whole"):
        find_model_subgraphs(chain(3), 4)


def test_a_number_and_whole_are_read() -> None:
    """None stands for whole."""
    assert (parse_granularity("3"), parse_granularity(" whole "), parse_granularity("WHOLE")) == (
        3,
        None,
        None,
    )
