"""BERT's encoder (Devlin et al., 2019), with the names of weights that published checkpoints use."""

from __future__ import annotations

from typing import Any

NORM_EPSILON = 1e-12


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``input_ids, attention_mask: n x s`` int64 -> ``n x hidden``.

    ``arguments``: vocabulary, hidden, layers, heads, intermediate, positions, and ``pool``: "first"
    (the pooler on the first token) or "mean" (the mean over real tokens, of length 1).
    """
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import normalize, scaled_dot_product_attention

    hidden, heads = arguments["hidden"], arguments["heads"]

    def norm() -> Any:
        return nn.LayerNorm(hidden, eps=NORM_EPSILON)

    class Embeddings(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.word_embeddings = nn.Embedding(arguments["vocabulary"], hidden)
            self.position_embeddings = nn.Embedding(arguments["positions"], hidden)
            self.token_type_embeddings = nn.Embedding(2, hidden)
            self.LayerNorm = norm()

        def forward(self, ids: Tensor) -> Any:
            positions = self.position_embeddings.weight[: ids.shape[1]]
            return self.LayerNorm(
                self.word_embeddings(ids) + positions + self.token_type_embeddings.weight[0]
            )

    def named(**parts: Any) -> Any:
        return nn.ModuleDict(parts)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            linear = nn.Linear
            self.attention = named(
                self=named(
                    query=linear(hidden, hidden), key=linear(hidden, hidden), value=linear(hidden, hidden)
                ),
                output=named(dense=linear(hidden, hidden), LayerNorm=norm()),
            )
            self.intermediate = named(dense=linear(hidden, arguments["intermediate"]))
            self.output = named(dense=linear(arguments["intermediate"], hidden), LayerNorm=norm())
            self.activation = nn.GELU()

        def forward(self, value: Tensor, mask: Tensor) -> Any:
            inner = self.attention["self"]
            q, k, v = (
                inner[part](value).unflatten(-1, (heads, hidden // heads)).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
            after = self.attention["output"]
            value = after["LayerNorm"](after["dense"](mixed) + value)
            wide = self.activation(self.intermediate["dense"](value))
            return self.output["LayerNorm"](self.output["dense"](wide) + value)

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings = Embeddings()
            self.encoder = named(layer=nn.ModuleList(Layer() for _ in range(arguments["layers"])))
            if arguments["pool"] == "first":
                self.pooler = named(dense=nn.Linear(hidden, hidden))

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
            value = self.embeddings(input_ids)
            # Added to the scores; finite, so that a row without a single token is still no NaN.
            mask = (1.0 - attention_mask[:, None, None, :].to(value.dtype)) * -1e4
            for layer in self.encoder["layer"]:
                value = layer(value, mask)
            if arguments["pool"] == "first":
                return torch.tanh(self.pooler["dense"](value[:, 0]))
            weights = attention_mask[..., None].to(value.dtype)
            return normalize((value * weights).sum(1) / weights.sum(1).clamp(min=1.0))

    return Bert()
