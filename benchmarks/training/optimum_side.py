"""A training by optimum-benchmark, in an environment of its own: ``python optimum_side.py SETTINGS.json``.

Nothing of ours is imported here. Prints one JSON line: the seconds of each step behind the warm-up, as its scenario
*training* gives them: from the moment when transformers' Trainer has a batch to the end of its optimiser's step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Trains by the settings of ``benchmarks.training.optimum``."""
    from optimum_benchmark import Benchmark, BenchmarkConfig, InlineConfig, PyTorchConfig, TrainingConfig
    from transformers import BertConfig, BertForSequenceClassification

    settings: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(settings["folder"])
    sizes = BertConfig(
        **settings["bert"],
        num_labels=settings["classes"],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    # Its option for a model without weights asks the hub for its sizes.
    BertForSequenceClassification(sizes).save_pretrained(folder / "model")
    batch, steps, warmup = settings["batch_size"], settings["steps"], settings["warmup_steps"]
    config = BenchmarkConfig(
        name="bert",
        launcher=InlineConfig(),
        scenario=TrainingConfig(
            max_steps=warmup + steps,
            warmup_steps=warmup,
            dataset_shapes={"dataset_size": batch * (warmup + steps), "sequence_length": settings["length"]},
            training_arguments={
                "per_device_train_batch_size": batch,
                "output_dir": str(folder / "out"),
                "use_cpu": True,
                "optim": "sgd",
                "learning_rate": settings["learning_rate"],
                "lr_scheduler_type": "constant",
                "max_grad_norm": 0.0,
                "save_strategy": "no",
                "logging_strategy": "no",
                "dataloader_pin_memory": False,
                "disable_tqdm": True,
            },
        ),
        backend=PyTorchConfig(
            model=str(folder / "model"),
            task="text-classification",
            library="transformers",
            model_type="bert",
            device="cpu",
            torch_dtype="float32",
            eval_mode=False,
        ),
    )
    report = Benchmark.launch(config)
    print(json.dumps(report.train.latency.values))


if __name__ == "__main__":
    main()
