"""Norms that stand before their convolution, and so are not folded into it."""

from __future__ import annotations

from typing import Any


def told_apart(network: Any) -> Any:
    """The network, each batch normalisation with parameters of its own, as after training.

    Fresh ones are all alike: the ONNX exporter would keep one of them, and read it through hundreds of Identity layers.
    """
    from torch import nn

    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for parameter, low in ((module.weight, 0.9), (module.bias, -0.1), (module.running_mean, -0.1)):
                nn.init.uniform_(parameter, low, low + 0.2)
            nn.init.uniform_(module.running_var, 0.9, 1.1)
    return network
