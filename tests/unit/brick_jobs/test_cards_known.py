"""What registered models can't take is said before one of them is fetched."""

from __future__ import annotations

import pytest

from inferbench_tasks.brick_jobs.cards_known import of_card
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.modelrepo.card import ModelCard

FREE = ModelCard(name="ours", version=2, inputs=[TensorSpec(name="x", dtype="float32", shape=(-1, 4))])
FIXED = FREE.model_copy(update={"batch_size": 8})


@pytest.mark.parametrize(
    ("card", "shapes", "batch_sizes", "fields", "said"),
    [
        (
            FIXED,
            {"x": (7, 4)},
            (1, 8, 2),
            ("bricks.batch_sizes", "models.3"),
            "ours@2 takes 8 samples in each call, not 1 or 2",
        ),
        (FREE, {}, (1,), ("models.3.shapes", "models.3.model"), "the input x has the open sizes [-1, 4]"),
        (FREE, {"y": (1,)}, (1,), ("models.3.shapes", "models.3.model"), "the model has no input y"),
        (FREE, {"x": (7, 5)}, (1,), ("models.3.shapes", "models.3.model"), "x takes [-1, 4], not [7, 5]"),
    ],
)
def test_what_a_card_says_against_it_is_told_with_its_field(
    card: ModelCard,
    shapes: dict[str, tuple[int, ...]],
    batch_sizes: tuple[int, ...],
    fields: tuple[str, ...],
    said: str,
) -> None:
    """Another batch size than its own, an open size, an input or a size that it has not."""
    [found] = of_card(card, 3, shapes, batch_sizes)
    assert found.fields == fields and found.message.startswith(said)


def test_what_fits_or_is_not_known_is_let_through() -> None:
    """Its own batch, any batch of a model that takes any, and a card without inputs."""
    assert list(of_card(FIXED, 0, {"x": (7, 4)}, (8,))) == []
    assert list(of_card(FREE, 0, {"x": (7, 4)}, (1, 8, 2))) == []
    assert list(of_card(ModelCard(name="ours", version=1), 0, {}, (1,))) == []
