"""What one rank of any trainer does for ``tests/contract/test_trainers.py``.

``python -m tests.trainer_contract start FOLDER`` starts all ranks of FOLDER/order.json by their trainer's own command;
each writes ``rank-N.npz``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from inferbench_tasks.training.order import Order
from inferbench_tasks.training.trainers.base import trainer_of


def start(folder: Path) -> None:
    """In place of this process."""
    job = Order.read(folder / "order.json").job
    command = trainer_of(job).command(job, ("-m", "tests.trainer_contract", "rank", str(folder)))
    os.execv(command[0], command)


def rank(folder: Path) -> None:
    """The gradients of one batch, which samples were taken, and what the ranks say to each other."""
    import numpy as np
    import torch

    from inferbench_tasks.training.rank import Rank

    torch.set_num_threads(1)
    order = Order.read(folder / "order.json")
    number, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    trainer = trainer_of(order.job)(order.job, number, world, "cpu")
    trainer.begin()
    one = Rank(order, number, world, trainer=trainer)
    one.network.eval()
    images, labels = one.to_device(next(one.batches("bare")))
    one.backward(one.criterion(one.network(images), labels))
    gradients = np.concatenate([p.grad.numpy().ravel() for p in one.module.parameters()])
    before = np.concatenate([p.detach().numpy().ravel() for p in one.module.parameters()])
    one.computing.step(one.optimiser)
    after = np.concatenate([p.detach().numpy().ravel() for p in one.module.parameters()])
    said = {}
    if trainer.several:
        trainer.barrier()
        said["total"] = trainer.total(torch.tensor([1.0 + number, 10.0])).numpy()
        gathered = trainer.gather(torch.tensor([[float(number), 5.0]]))
        said["gathered"] = np.stack([part.numpy() for part in gathered])
    taken = np.array(one.sampler.indices)
    path = folder / f"rank-{number}.npz"
    np.savez(path, gradients=gradients, before=before, after=after, taken=taken, **said)
    trainer.end()


if __name__ == "__main__":
    {"start": start, "rank": rank}[sys.argv[1]](Path(sys.argv[2]))
