"""Two LSTM layers of 512 units over 64 steps of 256 features."""

from __future__ import annotations

from typing import Any

STEPS, FEATURES, HIDDEN, LAYERS = 64, 256, 512, 2


def build(framework: str, name: str, arguments: dict[str, Any]) -> Any:
    """``n x 64 x 256`` -> ``n x 512``: the last step."""
    if framework == "tensorflow":
        import keras

        value = inputs = keras.Input((STEPS, FEATURES))
        for layer in range(LAYERS):
            value = keras.layers.LSTM(HIDDEN, return_sequences=layer < LAYERS - 1)(value)
        return keras.Model(inputs, value)
    from torch import Tensor, nn

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(FEATURES, HIDDEN, LAYERS, batch_first=True)

        def forward(self, value: Tensor) -> Any:
            return self.lstm(value)[0][:, -1]

    return Last()
