"""What is trained: networks by name, with random weights."""

from __future__ import annotations

from typing import Any, Final

#: Network -> the channels of its images.
CHANNELS: Final = {"fashion-cnn": 1, "resnet-18": 3, "resnet-50": 3}
#: The only side that the small network takes, pixels.
FASHION_SIDE: Final = 28


def build(name: str) -> Any:
    """The network, a ``torch.nn.Module``: ``n x channels x side x side`` -> scores of 10 or 1000 classes."""
    if name == "fashion-cnn":
        from inferbench_tasks.modelrepo.networks import fashion

        return fashion.build("torch", name, {})
    from inferbench_tasks.modelrepo.networks import resnet

    if name == "resnet-50":
        return resnet.in_torch(resnet.RESNET_50, bottleneck=True)
    return resnet.in_torch(resnet.RESNET_18, bottleneck=False)
