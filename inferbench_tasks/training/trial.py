"""Whether the user's module trains: a batch forward and backward, before a device is taken.

It is the user's code, so it runs where stages of foreign models run: in a sandboxed child.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from inferbench_tasks.errors import InputError
from inferbench_tasks.formats import module_file
from inferbench_tasks.training import networks
from inferbench_tasks.training.items import collate, items_of
from inferbench_tasks.training.order import Order

#: Samples of the trial; and those of the last batch of an epoch, where it has fewer.
SAMPLES: Final = 8
_NAMED: Final = 5


def check(order: Order) -> None:
    """InputError, with what is wrong, where, and what it needs, for a network that can't do what the job asks for."""
    import torch

    job = order.job
    torch.set_num_threads(1)
    torch.manual_seed(job.train.seed)
    network = networks.build(job, order.module_folder)
    training = job.train.benchmark == "train"
    network.train(training)
    if training and not any(p.requires_grad for p in network.parameters()):
        raise _refused("the network has no parameters to train")
    items, _ = items_of(order)
    sizes = {min(SAMPLES, job.train.batch_size)}
    if last := job.samples_per_process % job.train.batch_size if not job.smooth else 0:
        sizes.add(min(SAMPLES, last))
    largest = int(items.labels.max())
    for size in sorted(sizes, reverse=True):
        images, labels, _ = collate([items[index] for index in range(size)])
        try:
            with torch.set_grad_enabled(training):
                scores = network(images)
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise _raised(error, order, f"with {size} sample(s) of {_shape(images)}") from error
        _output(scores, size, largest, training)
        if training:
            _gradients(network, torch.nn.functional.cross_entropy(scores, labels), order)
            network.zero_grad(set_to_none=True)


def _output(scores: Any, size: int, largest: int, training: bool) -> None:
    import torch

    if not isinstance(scores, torch.Tensor):
        raise _refused(
            f"forward gives {type(scores).__name__}; it has to give a tensor of n x classes scores"
        )
    if scores.dim() < 1 or scores.shape[0] != size:
        raise _refused(
            f"forward gives {_shape(scores)} for {size} sample(s); its first axis has to be theirs"
        )
    if not training:
        return
    if scores.dim() != 2 or not scores.is_floating_point():
        kind = str(scores.dtype).removeprefix("torch.")
        raise _refused(
            f"forward gives {kind} of {_shape(scores)} for {size} sample(s); needed are n x classes scores"
        )
    if largest >= scores.shape[1]:
        raise _refused(
            f"the data's labels go from 0 to {largest}, and forward gives {scores.shape[1]} scores: they must be "
            f"{largest + 1} at least"
        )


def _gradients(network: Any, loss: Any, order: Order) -> None:
    import torch

    value = float(loss.detach())
    if not torch.isfinite(loss.detach()):
        raise _refused(f"the loss of the first batch is {value}, before anything is learned")
    if not loss.requires_grad:
        raise _refused(
            "the scores have no gradient: they are detached from the parameters (no_grad, detach, argmax)"
        )
    try:
        loss.backward()
    except (Exception, SystemExit) as error:  # of the user's own functions
        raise _raised(error, order, "on the way back") from error
    parameters = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
    without = [name for name, p in parameters if p.grad is None]
    if len(without) == len(parameters):
        raise _refused("no parameter gets a gradient: the scores don't depend on any of them")
    if without and order.job.devices.strategy == "ddp":
        names = ", ".join(without[:_NAMED])
        raise _refused(
            f"{len(without)} parameter(s) get no gradient ({names}), for which DistributedDataParallel would wait: "
            "set their requires_grad to False, or leave them out"
        )
    gradients = [(name, p.grad) for name, p in parameters if p.grad is not None]
    if broken := [name for name, gradient in gradients if not torch.isfinite(gradient).all()]:
        raise _refused(f"gradients of the first batch are no finite numbers: {', '.join(broken[:_NAMED])}")
    if not any(bool(gradient.any()) for _, gradient in gradients):
        raise _refused("all gradients of the first batch are 0: nothing would be learned")


def _refused(why: str) -> InputError:
    return InputError(f"the module does not train: {why}", field="model.module")


def _raised(error: BaseException, order: Order, when: str) -> InputError:
    place = module_file.place_of(error, Path(order.module_folder or "") / module_file.FILE)
    return _refused(f"{place}{type(error).__name__}: {error}, {when}")


def _shape(tensor: Any) -> str:
    return " x ".join(map(str, tensor.shape)) or "no axis"
