"""Local response normalisation over channels, of AlexNet and Inception V1."""

from __future__ import annotations

from typing import Any


def response_norm() -> Any:
    """Each channel over what its five neighbours show; spelled out, since PyTorch's own asks for sizes."""
    from torch import Tensor, nn

    class ResponseNorm(nn.Module):
        def forward(self, value: Tensor) -> Any:
            squares = nn.functional.avg_pool3d(value.square().unsqueeze(1), (5, 1, 1), 1, (2, 0, 0)).squeeze(
                1
            )
            return value / (squares * 1e-4 + 1.0) ** 0.75

    return ResponseNorm()
