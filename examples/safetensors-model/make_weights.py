"""Stands for your own training: writes the weights, their signature and some labelled samples beside this file.

python make_weights.py && inferbench run submission.yaml
"""

import json
from pathlib import Path

import numpy as np
import torch
from net import build
from safetensors.torch import save_file
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
SIGNATURE = {
    "inputs": [{"name": "pixels", "dtype": "float32", "shape": [8, 8]}],
    "outputs": [{"name": "scores", "dtype": "float32", "shape": [10]}],
}


def main() -> None:
    """A few seconds on one core."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    digits = load_digits()
    images, labels = (digits.images / 16).astype(np.float32), digits.target.astype(np.int64)
    network = build()
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        answer = network(torch.from_numpy(images[:1400]))
        torch.nn.functional.cross_entropy(answer, torch.from_numpy(labels[:1400])).backward()
        optimiser.step()
    save_file(network.state_dict(), HERE / "net.safetensors")
    (HERE / "net.safetensors.signature.json").write_text(json.dumps(SIGNATURE))
    np.savez(HERE / "samples.npz", pixels=images[1400:], labels=labels[1400:])


if __name__ == "__main__":
    main()
