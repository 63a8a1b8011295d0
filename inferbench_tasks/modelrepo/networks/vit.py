"""Vision transformers: ViT (Dosovitskiy et al., 2021), DeiT (Touvron et al., 2021) with its token for a teacher."""

from __future__ import annotations

from typing import Any


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x colours x side x side`` -> a score for each class.

    ``arguments``: hidden, layers, heads, patch (16), side (224), distilled (False: else the mean of two heads), colours
    (3), classes (1000).
    """
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import scaled_dot_product_attention

    hidden, heads = arguments["hidden"], arguments["heads"]
    patch, side = arguments.get("patch", 16), arguments.get("side", 224)
    tokens, classes = 2 if arguments.get("distilled") else 1, arguments.get("classes", 1000)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(hidden, 1e-6), nn.LayerNorm(hidden, 1e-6)
            self.qkv, self.mixed = nn.Linear(hidden, hidden * 3), nn.Linear(hidden, hidden)
            self.wide = nn.Sequential(nn.Linear(hidden, hidden * 4), nn.GELU(), nn.Linear(hidden * 4, hidden))

        def forward(self, value: Tensor) -> Any:
            parts = self.qkv(self.before(value)).chunk(3, -1)
            q, k, v = (part.unflatten(-1, (heads, hidden // heads)).transpose(1, 2) for part in parts)
            value = value + self.mixed(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            return value + self.wide(self.between(value))

    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(arguments.get("colours", 3), hidden, patch, patch)
            self.tokens = nn.Parameter(torch.randn(1, tokens, hidden) * 0.02)
            self.positions = nn.Parameter(torch.randn(1, (side // patch) ** 2 + tokens, hidden) * 0.02)
            self.layers = nn.Sequential(*(Layer() for _ in range(arguments["layers"])))
            self.norm = nn.LayerNorm(hidden, 1e-6)
            self.heads = nn.ModuleList(nn.Linear(hidden, classes) for _ in range(tokens))

        def forward(self, value: Tensor) -> Any:
            value = self.patches(value).flatten(2).transpose(1, 2)
            value = torch.cat([self.tokens.expand(value.shape[0], -1, -1), value], 1) + self.positions
            value = self.norm(self.layers(value))
            scores = [head(value[:, index]) for index, head in enumerate(self.heads)]
            return scores[0] if tokens == 1 else (scores[0] + scores[1]) / 2

    return Vit()
