"""CapsNet (Sabour, Frosst, Hinton, 2017): vectors agree on what they see, by routing in three iterations."""

from __future__ import annotations

from typing import Any

CLASSES, CAPSULES, SHORT, LONG = 10, 1152, 8, 16
ITERATIONS = 3


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 1 x 28 x 28`` -> ``n x 10``: the lengths of the classes' vectors."""
    import torch
    from torch import Tensor, nn

    def squash(value: Tensor) -> Tensor:
        square = value.square().sum(-1, keepdim=True)
        return value * (square / (1 + square) / (square + 1e-8).sqrt())

    class Capsules(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 256, 9), nn.ReLU(), nn.Conv2d(256, 256, 9, 2))
            self.weights = nn.Parameter(torch.randn(CAPSULES, SHORT, CLASSES * LONG) * 0.05)

        def forward(self, value: Tensor) -> Any:
            # Each group of 8 channels at one of 6 x 6 places is a capsule.
            low = self.features(value).unflatten(1, (32, SHORT)).permute(0, 1, 3, 4, 2).flatten(1, 3)
            votes = (squash(low).unsqueeze(2) @ self.weights).unflatten(-1, (CLASSES, LONG)).squeeze(2)
            agreement = votes[..., :1] * 0.0
            for step in range(ITERATIONS):
                high = squash((agreement.softmax(2) * votes).sum(1, keepdim=True))
                if step < ITERATIONS - 1:
                    agreement = agreement + (votes * high).sum(-1, keepdim=True)
            return (high.square().sum(-1) + 1e-8).sqrt().flatten(1)

    return Capsules()
