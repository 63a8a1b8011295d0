"""Safetensors: a language model in a folder as Hugging Face's libraries read it, made of a GGUF file and nothing else.

The weights are the GGUF file's own values in float32; configuration, tokenizer and chat template are its fields.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import ConversionError, InputError
from inferbench_tasks.formats.base import Format, Predict, Settings
from inferbench_tasks.formats.gguf_file import GgufFile, read_gguf
from inferbench_tasks.formats.gguf_tokenizer import Tokenizer, not_counted
from inferbench_tasks.formats.gguf_values import UNPACK, tensor_values
from inferbench_tasks.formats.llama_layout import config_of, name_of, rows_in_order
from inferbench_tasks.formats.safetensors_file import write_float32

#: GGUF's word for a token with a part of its own -> the tokenizer's.
_PARTS = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}


class SafetensorsFormat(Format):
    """Nothing is rounded and no server of models is asked; the first answer of its server shows that it is right."""

    kind = "safetensors"
    title = "language model in safetensors (a folder of Hugging Face's form)"
    extra = "llm"
    packages = ("tokenizers",)
    file = "model"
    sources = {"gguf": ("fp32",)}
    devices = ("cpu",)
    tensors = False
    unpacks = True
    given = False

    def open(self, model: ModelArtifact) -> Predict:
        raise InputError(
            f"{model.name} takes texts and gives tokens, not tensors; a server of language models runs it"
        )

    def refusal(self, source: ModelArtifact) -> str | None:
        """By its fields, the shapes of its tensors and their types."""
        try:
            model = read_gguf(Path(source.path))
            config_of(model)
            _require_tokenizer(model)
        except ConversionError as error:
            return str(error)
        if packed := sorted(model.types.keys() - UNPACK.keys()):
            return f"it has tensors of {', '.join(packed)}; read are {', '.join(sorted(UNPACK))}"
        return None

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        """Raises ConversionError for what is no plain llama whose tokenizer is known."""
        path = Path(source.path)
        model = read_gguf(path)
        config = config_of(model)
        tokenizer = _tokenizer_files(model)
        target = folder / self.file
        target.mkdir()
        by_name = {tensor.name: tensor for tensor in model.tensors}
        with path.open("rb") as file:
            write_float32(
                target / "model.safetensors",
                {name_of(name): tensor.shape for name, tensor in by_name.items()},
                (
                    rows_in_order(name, tensor_values(file, tensor), config)
                    for name, tensor in by_name.items()
                ),
            )
        ids = {f"{part}_token_id": number for part, (number, _) in _special(model).items()}
        known = {name: ids[name] for name in ("bos_token_id", "eos_token_id") if name in ids}
        (target / "config.json").write_text(json.dumps(config | known, indent=2))
        (target / "generation_config.json").write_text(json.dumps(known))
        for name, text in tokenizer.items():
            (target / name).write_text(text)


def _require_tokenizer(model: GgufFile) -> None:
    """ConversionError for one that is not known, puts tokens around texts, or names tokens that it does not have."""
    fields = model.fields
    if (reason := not_counted(fields)) is not None:
        raise ConversionError(reason)
    if fields.get("tokenizer.ggml.add_bos_token") or fields.get("tokenizer.ggml.add_eos_token"):
        raise ConversionError(
            "its tokenizer puts a token of its own around each text, which is not converted"
        )
    _special(model)


def _tokenizer_files(model: GgufFile) -> dict[str, str]:
    _require_tokenizer(model)
    fields = model.fields
    about: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": model.context_tokens,
        **{_PARTS[part]: token for part, (_, token) in _special(model).items()},
    }
    if isinstance(template := fields.get("tokenizer.chat_template"), str):
        about["chat_template"] = template
    return {"tokenizer.json": Tokenizer(fields).json(), "tokenizer_config.json": json.dumps(about, indent=2)}


def _special(model: GgufFile) -> dict[str, tuple[int, str]]:
    """Number and text of the tokens with a part of their own; ConversionError for one that does not exist."""
    tokens: list[str] = model.fields["tokenizer.ggml.tokens"]
    parts: dict[str, tuple[int, str]] = {}
    for part in _PARTS:
        number = model.fields.get(f"tokenizer.ggml.{part}_token_id")
        if number is None:
            continue
        if not isinstance(number, int) or not 0 <= number < len(tokens):
            raise ConversionError(f"its {part} token is {number!r}, and it has {len(tokens):,} tokens")
        parts[part] = number, tokens[number]
    return parts
