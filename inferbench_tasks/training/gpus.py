"""Whether a training's GPUs are there, before anything of it is made."""

from __future__ import annotations

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.job import TrainingJob


def check(job: TrainingJob) -> None:
    """InputError with what there is, and what can be trained on it; nothing of a job on CPUs."""
    if job.devices.kind.kind != "gpu":
        return
    import torch

    count = torch.cuda.device_count()
    built = torch.version.cuda or "no CUDA: it is torch's build for CPUs"
    if count < job.devices.count:
        raise InputError(
            f"{job.devices.count} GPU(s) are asked for, torch sees {count} here (torch {torch.__version__}, {built}): "
            "give as many as there are, or devices.kind: cpu (gloo, fp32 or bf16)",
            field="devices.count" if count else "devices.kind",
        )
    if job.devices.exchange == "nccl" and not torch.distributed.is_nccl_available():
        raise InputError(
            f"torch {torch.__version__} was built without nccl: give backend: gloo", field="devices.backend"
        )
    if job.train.precision == "bf16" and not torch.cuda.is_bf16_supported():
        raise InputError("these GPUs have no bf16: give precision fp16 or fp32", field="train.precision")
