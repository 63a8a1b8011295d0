"""A language model in GGUF as a folder of Hugging Face's form."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import ConversionError, InputError
from inferbench_tasks.formats.base import Settings
from inferbench_tasks.formats.gguf_tokenizer import Tokenizer
from inferbench_tasks.formats.route import Hop, route
from inferbench_tasks.formats.safetensors import SafetensorsFormat
from tests.gguf_files import fields, gguf, tensor

HEADS, KV_HEADS, HEAD, WIDTH, INNER = 3, 1, 4, 12, 20
Weights = dict[str, NDArray[np.float32]]


def llama(**more: Any) -> dict[str, Any]:
    """The fields of a llama of one layer."""
    return (
        fields()
        | {
            "llama.embedding_length": WIDTH,
            "llama.feed_forward_length": INNER,
            "llama.block_count": 1,
            "llama.attention.head_count": HEADS,
            "llama.attention.head_count_kv": KV_HEADS,
            "llama.attention.layer_norm_rms_epsilon": 0.0625,
            "llama.rope.freq_base": 5000.0,
            "tokenizer.ggml.eos_token_id": 1,
            "tokenizer.chat_template": "{{ messages[0].content }}",
        }
        | {name.replace("__", "."): value for name, value in more.items()}
    )


def weights() -> Weights:
    """By Hugging Face's names, by chance; input and output share their embedding."""
    rng = np.random.default_rng(3)
    words = len(llama()["tokenizer.ggml.tokens"])
    layer = {
        "input_layernorm": (WIDTH,), "self_attn.q_proj": (HEADS * HEAD, WIDTH), "self_attn.k_proj": (HEAD, WIDTH),
        "self_attn.v_proj": (HEAD, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * HEAD),
        "post_attention_layernorm": (WIDTH,), "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH),
        "mlp.down_proj": (WIDTH, INNER),
    }  # fmt: skip
    shapes = {"model.embed_tokens.weight": (words, WIDTH), "model.norm.weight": (WIDTH,)}
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def permuted(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """As llama.cpp's ``convert_hf_to_gguf.py`` writes query and key (``LlamaModel.permute``)."""
    rows = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return rows.swapaxes(1, 2).reshape(values.shape)


def as_gguf(named: dict[str, Any], model: Weights) -> bytes:
    """The file that llama.cpp's converter would write."""
    names = {
        "embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "blk.0.attn_norm",
        "q_proj": "blk.0.attn_q", "k_proj": "blk.0.attn_k", "v_proj": "blk.0.attn_v", "o_proj": "blk.0.attn_output",
        "post_attention_layernorm": "blk.0.ffn_norm", "gate_proj": "blk.0.ffn_gate", "up_proj": "blk.0.ffn_up",
        "down_proj": "blk.0.ffn_down",
    }  # fmt: skip
    described, data = [], b""
    for name, values in model.items():
        part = name.split(".")[-2]
        if heads := {"q_proj": HEADS, "k_proj": KV_HEADS}.get(part):
            values = permuted(values, heads)
        described.append(tensor(f"{names.get(part, part)}.weight", list(values.shape[::-1]), 0, len(data)))
        data += values.tobytes() + bytes(-4 * math.prod(values.shape) % 32)
    return gguf(named, described, values=data)


def source_of(path: Path) -> ModelArtifact:
    """The model in that file."""
    return ModelArtifact(
        name="m", framework="gguf", format="gguf", path=str(path), digest="0" * 64, inputs=(), outputs=()
    )


def converted(folder: Path, named: dict[str, Any], model: Weights) -> Path:
    """The folder that is made of such a file."""
    path = folder / "m.gguf"
    path.write_bytes(as_gguf(named, model))
    SafetensorsFormat().convert(source_of(path), folder, Settings())
    return folder / "model"


def test_the_weights_are_those_that_were_converted_to_gguf(tmp_path: Path) -> None:
    """Each under its own name, the rows of query and key in the order that they had before."""
    model = weights()
    read = load_file(converted(tmp_path, llama(), model) / "model.safetensors")
    assert read.keys() == model.keys()
    for name, values in model.items():
        assert np.array_equal(read[name], values), name
    query = model["model.layers.0.self_attn.q_proj.weight"]
    assert SafetensorsFormat().refusal(source_of(tmp_path / "m.gguf")) is None
    assert not np.array_equal(permuted(query, HEADS), query)  # else nothing of the order is tested


def test_settings_and_tokenizer_are_the_file_s_own(tmp_path: Path) -> None:
    """Sizes, constants and the end of a text; Hugging Face's tokenizer gives the same ids."""
    from tokenizers import Tokenizer as HuggingFaces

    named = llama()
    folder = converted(tmp_path, named, weights())
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"] and config["tie_word_embeddings"] is True
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    assert [config[name] for name in sizes] == [WIDTH, INNER, 1, HEADS]
    assert (config["num_key_value_heads"], config["head_dim"], config["max_position_embeddings"]) == (
        1,
        4,
        512,
    )
    assert (config["rms_norm_eps"], config["rope_theta"], config["eos_token_id"]) == (0.0625, 5000.0, 1)
    text = "<|im_start|> then all the rest<|im_end|>"
    theirs = HuggingFaces.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False)
    assert theirs.ids == Tokenizer(named).ids(text) and theirs.ids[-1] == 1
    about = json.loads((folder / "tokenizer_config.json").read_text())
    assert (about["eos_token"], about["chat_template"]) == ("<|im_end|>", "{{ messages[0].content }}")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"general__architecture": "qwen2"}, "of the architecture qwen2; converted is llama"),
        ({"llama__rope__scaling__type": "yarn"}, r"positions are scaled \(yarn\)"),
        ({"llama__rope__scaling__factor": 4.0}, r"positions are scaled \(linear, 4.0\)"),
        ({"llama__rope__scale_linear": 4.0}, r"positions are scaled \(linear, 4.0\)"),
        ({"llama__expert_count": 8}, "mixture of experts"),
        ({"llama__rope__dimension_count": 2}, "only a part of its heads of 4 has positions"),
        ({"llama__block_count": 2_000_000_000}, "2,000,000,000 layers by its fields, and 11 tensors"),
        (
            {"llama__attention__head_count": 0},
            "llama.attention.head_count is 0; it should be a count above 0",
        ),
        ({"llama__rope__freq_base": -1.0}, "llama.rope.freq_base is -1.0"),
        (
            {"llama__feed_forward_length": 21},
            r"blk.0.ffn_gate.weight should be \[21, 12\] .* it is \[20, 12\]",
        ),
        ({"tokenizer__ggml__pre": "other"}, "its tokenizer is 'gpt2' cut as 'other'"),
        ({"tokenizer__ggml__add_bos_token": 1}, "a token of its own around each text"),
        ({"tokenizer__ggml__eos_token_id": 99_999}, "its eos token is 99999, and it has"),
    ],
)
def test_what_is_no_plain_llama_is_refused(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    """In a sentence, before anything is written."""
    with pytest.raises(ConversionError, match=words):
        converted(tmp_path, llama(**more), weights())
    assert re.search(words, SafetensorsFormat().refusal(source_of(tmp_path / "m.gguf")) or "")
    assert not list(tmp_path.glob("model/*"))


def test_a_tensor_too_many_or_too_few_is_refused(tmp_path: Path) -> None:
    """It would be another model than the one that answers."""
    without, with_bias = weights(), weights()
    del without["model.norm.weight"]
    with pytest.raises(ConversionError, match=r"output_norm.weight should be \[12\] .* it is not there"):
        converted(tmp_path, llama(), without)
    with_bias["model.layers.0.self_attn.attn_q.bias.weight"] = np.zeros(4, np.float32)
    with pytest.raises(ConversionError, match="it has the tensor 'bias.weight', which is not known"):
        converted(tmp_path, llama(), with_bias)


def test_only_gguf_becomes_it_and_nothing_runs_it_here() -> None:
    """The way from GGUF has one step; other models have none."""
    assert route("gguf", "safetensors") == (Hop("gguf", "safetensors", "fp32"),)
    with pytest.raises(InputError, match="can't be converted to safetensors"):
        route("onnx", "safetensors")
