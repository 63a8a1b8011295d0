"""EfficientNet-Lite0 to 2: published sizes, and TensorFlow's padding at every size."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.modelrepo.networks.efficientnet_lite import SIZES, build
from inferbench_tasks.modelrepo.zoo_efficientnet import EfficientNetLite

torch = pytest.importorskip("torch")
#: Of the published networks.
PARAMETERS = {
    "efficientnet-lite0": 4_652_008,
    "efficientnet-lite1": 5_416_680,
    "efficientnet-lite2": 6_092_072,
}


@pytest.mark.parametrize("name", SIZES)
def test_it_is_as_large_as_published_and_takes_its_own_samples(name: str) -> None:
    """To the last parameter; its photographs have the side that its signature says."""
    source = EfficientNetLite(name)
    (inputs,), (outputs,) = source.signature()
    assert source.dataset().inputs(np.array([0]))["input"].shape == (1, *inputs.shape)
    with torch.device("meta"):
        network = build("torch", name, {}).eval()
    assert sum(p.numel() for p in network.parameters()) == PARAMETERS[name]
    with torch.no_grad():
        answer = network(torch.zeros((2, *inputs.shape), device="meta"))
    assert tuple(answer.shape) == (2, *outputs.shape)


@pytest.mark.parametrize("name", SIZES)
def test_each_convolution_gives_what_tensorflows_same_gives(name: str) -> None:
    """The side divided by the stride, rounded up, with the odd pixel at the far side: also where a side is odd."""
    with torch.device("meta"):
        network = build("torch", name, {}).eval()
    seen = []

    def note(module: object, inputs: tuple[object, ...], output: object) -> None:
        side, stride, kernel = inputs[0].shape[-1], module.stride[0], module.kernel_size[0]  # type: ignore[attr-defined]
        low, high = module.pads[:2]  # type: ignore[attr-defined]
        made = -(-side // stride)
        assert output.shape[-1] == made  # type: ignore[attr-defined]
        assert (low + high, high - low) == (max((made - 1) * stride + kernel - side, 0), (low + high) % 2)
        seen.append(side % 2)

    for module in network.modules():
        if hasattr(module, "pads"):
            module.register_forward_hook(note)
    side = SIZES[name].side
    with torch.no_grad():
        network(torch.zeros((1, 3, side, side), device="meta"))
    assert any(seen) and not all(seen)
