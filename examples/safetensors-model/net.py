"""The network that the weights in ``net.safetensors`` belong to."""

import torch


class Net(torch.nn.Module):
    """8 x 8 grey pixels in [0, 1] -> scores of the ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(64, 32)
        self.scores = torch.nn.Linear(32, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.scores(torch.relu(self.hidden(pixels.flatten(1))))


def build() -> torch.nn.Module:
    """What ``model.factory`` names; InferBench loads the weights into what it returns."""
    return Net()
