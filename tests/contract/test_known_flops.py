"""FLOPs of well-known networks against the published figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.zoo import ZOO

# The frameworks warn within themselves; in a run their work is done in a child, where nobody listens.
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    ("name", "framework", "gmac", "parameters"),
    [
        ("resnet50", "torch", 4.089, 25_557_032),
        ("mobilenet_v2", "torch", 0.301, 3_504_872),
        ("lstm", "torch", 0.235, 3_678_208),
        pytest.param("mobilenet_v2", "tensorflow", 0.301, 3_504_872, marks=pytest.mark.long),
    ],
)
def test_known_figures(tmp_path: Path, name: str, framework: str, gmac: float, parameters: int) -> None:
    """Multiply-adds to three digits, parameters exactly."""
    pytest.importorskip(framework)
    model = build_model(ZOO.load(name)(name, framework), tmp_path, Watch())
    assert model.flops is not None
    assert round(model.flops / 2e9, 3) == gmac
    assert model.parameters == parameters
