"""Small GGUF files, written by hand as llama.cpp's description of them says."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

#: Merged in this order, so that " the" is one token and " then" two.
MERGES = ["Ġ t", "h e", "Ġt he", "Ġ a", "l l"]
CONTROL = ["<|im_start|>", "<|im_end|>"]


def fields(**more: Any) -> dict[str, Any]:
    """A model's fields with a vocabulary of 256 bytes and a few merges; None leaves one out. ``_`` stands for a dot."""
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*CONTROL, *letters, *(merge.replace(" ", "") for merge in MERGES)]
    types = [3] * len(CONTROL) + [1] * (len(tokens) - len(CONTROL))
    known = {
        "general.architecture": "llama",
        "llama.context_length": 512,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": MERGES,
    } | more
    return {name: value for name, value in known.items() if value is not None}


def text(value: str) -> bytes:
    """A string as it lies in a file."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list) and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    if isinstance(value, list):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    return struct.pack("<II", 4, value)


def tensor(name: str, sizes: list[int], kind: int, offset: int) -> bytes:
    """A tensor's description."""
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def gguf(
    named: dict[str, Any],
    tensors: list[bytes] | None = None,
    *,
    version: int = 3,
    values: bytes = bytes(64 + 40),
) -> bytes:
    """A whole file, by default with a tensor of 16 numbers in f32 and, at byte 64, one of 64 in q4_1 (40 bytes)."""
    if tensors is None:
        tensors = [tensor("a.weight", [4, 4], 0, 0), tensor("b.weight", [32, 2], 3, 64)]
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(named))
    head += b"".join(text(name) + _value(value) for name, value in named.items()) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + values


def written(folder: Path, **more: Any) -> Path:
    """Such a file."""
    path = folder / "m.gguf"
    path.write_bytes(gguf(fields(**more)))
    return path
