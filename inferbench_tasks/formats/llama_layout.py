"""A llama model's tensors and settings, as GGUF names them and as Hugging Face's folders do.

GGUF's are those of llama.cpp's ``convert_hf_to_gguf.py`` (class ``LlamaModel``), whose way is gone backwards here. It
writes the rows of query and key in another order: llama.cpp turns neighbours by one angle, Hugging Face's code a value
of a head's first half with one of its second.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.errors import ConversionError
from inferbench_tasks.formats.gguf_file import GgufFile

Values = NDArray[np.float32]

ARCHITECTURE = "llama"
#: GGUF's name -> Hugging Face's; of a layer without ``blk.N.`` and ``model.layers.N.`` in front.
_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_OF_A_LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_NORM_EPS, _ROPE_BASE = 1e-5, 10_000.0


def name_of(tensor: str) -> str:
    """Hugging Face's name of a tensor of GGUF. ConversionError for one that such a model does not have."""
    if tensor in _WHOLE:
        return _WHOLE[tensor]
    if (parts := _LAYER.fullmatch(tensor)) and parts[2] in _OF_A_LAYER:
        return f"model.layers.{parts[1]}.{_OF_A_LAYER[parts[2]]}"
    known = ", ".join([*_WHOLE, *(f"blk.N.{name}" for name in _OF_A_LAYER)])
    raise ConversionError(f"it has the tensor {tensor!r}, which is not known here; known are {known}")


def rows_in_order(tensor: str, values: Values, config: dict[str, Any]) -> Values:
    """A tensor's values as Hugging Face has them: rows of query and key halves of heads again, all else as it is."""
    kind = tensor.rpartition(".attn_")[2]
    heads = {"q.weight": "num_attention_heads", "k.weight": "num_key_value_heads"}.get(kind)
    if heads is None:
        return values
    in_pairs = values.reshape(config[heads], config["head_dim"] // 2, 2, -1)
    return np.ascontiguousarray(in_pairs.swapaxes(1, 2)).reshape(values.shape)


def config_of(model: GgufFile) -> dict[str, Any]:
    """``config.json``, of the file's fields. ConversionError for what is no plain llama, or says too little."""
    if model.architecture != ARCHITECTURE:
        raise ConversionError(f"it is of the architecture {model.architecture}; converted is {ARCHITECTURE}")
    if (scaling := _scaling(model)) is not None:
        raise ConversionError(f"its positions are scaled ({scaling}), which is not converted")
    if model.own("expert_count"):
        raise ConversionError("it is a mixture of experts, which is not converted")
    heads = _count(model, "attention.head_count")
    width = _count(model, "embedding_length")
    head_dim = _count(model, "attention.key_length", width // heads)
    if model.own("rope.dimension_count") not in (None, head_dim) or head_dim % 2:
        raise ConversionError(f"only a part of its heads of {head_dim} has positions, which is not converted")
    shapes = {tensor.name: tensor.shape for tensor in model.tensors}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": _count(model, "feed_forward_length"),
        "num_hidden_layers": _count(model, "block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _count(model, "attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": _number(model, "attention.layer_norm_rms_epsilon", _NORM_EPS),
        "rope_theta": _number(model, "rope.freq_base", _ROPE_BASE),
        "max_position_embeddings": _count(model, "context_length"),
        "vocab_size": shapes.get("token_embd.weight", (0,))[0],
        "tie_word_embeddings": "output.weight" not in shapes,
        "attention_bias": False,
        "mlp_bias": False,
    }
    _check_shapes(shapes, config)
    return config


def _scaling(model: GgufFile) -> str | None:
    """How positions are scaled, as llama.cpp reads it: a factor without a type is linear; None where they are not."""
    kind = model.own("rope.scaling.type")
    factor = model.own("rope.scaling.factor")
    if factor is None:
        factor = model.own("rope.scale_linear")
    if kind is None and factor not in (None, 0, 1):
        return f"linear, {factor}"
    return None if kind in (None, "none") else str(kind)


def shapes_of(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The tensors of such a model by GGUF's names, and their sizes: the last axis lies together."""
    width, inner, vocabulary = (config[n] for n in ("hidden_size", "intermediate_size", "vocab_size"))
    query, key = (config[n] * config["head_dim"] for n in ("num_attention_heads", "num_key_value_heads"))
    layer = {
        "attn_norm": (width,), "attn_q": (query, width), "attn_k": (key, width), "attn_v": (key, width),
        "attn_output": (width, query), "ffn_norm": (width,), "ffn_gate": (inner, width), "ffn_up": (inner, width),
        "ffn_down": (width, inner),
    }  # fmt: skip
    shapes = {"token_embd.weight": (vocabulary, width), "output_norm.weight": (width,)}
    if not config["tie_word_embeddings"]:
        shapes["output.weight"] = (vocabulary, width)
    for number in range(config["num_hidden_layers"]):
        shapes |= {f"blk.{number}.{name}.weight": shape for name, shape in layer.items()}
    return shapes


def _check_shapes(shapes: dict[str, tuple[int, ...]], config: dict[str, Any]) -> None:
    """ConversionError unless the tensors are all that the settings ask for, in their sizes."""
    if (layers := config["num_hidden_layers"]) * len(_OF_A_LAYER) > len(shapes):
        raise ConversionError(f"it has {layers:,} layers by its fields, and {len(shapes):,} tensors")
    wanted = shapes_of(config)
    for name in shapes:
        name_of(name)
    for name, shape in wanted.items():
        if (there := shapes.get(name)) != shape:
            found = "it is not there" if there is None else f"it is {list(there)}"
            raise ConversionError(f"the tensor {name} should be {list(shape)} by the file's fields; {found}")
    if more := sorted(shapes.keys() - wanted.keys()):
        raise ConversionError(f"it has {more[0]}, and by its fields {layers} layers without it")


def _count(model: GgufFile, name: str, usual: int | None = None) -> int:
    value = model.own(name)
    value = usual if value is None else value
    if not isinstance(value, int) or value < 1:
        raise ConversionError(f"its field {ARCHITECTURE}.{name} is {value!r}; it should be a count above 0")
    return value


def _number(model: GgufFile, name: str, usual: float) -> float:
    value = model.own(name)
    value = usual if value is None else value
    if not isinstance(value, float) or not 0 < value < math.inf:
        raise ConversionError(f"its field {ARCHITECTURE}.{name} is {value!r}; it should be a number above 0")
    return value
