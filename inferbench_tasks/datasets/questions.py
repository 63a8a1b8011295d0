"""Questions about texts in the form that a model takes which scores each token as an answer's start and its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.artifacts.plain_file import read_plain
from inferbench_tasks.artifacts.safe_files import inside
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import ModelSource
from inferbench_tasks.datasets.base import Collection
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.processors.text import MAX_FILE_BYTES
from inferbench_tasks.submission.spans import SpansSpec

_FIELD = "evaluate.spans.tokenizer"
OWN = "tokenizer.json"
#: What a model's inputs are called: the tokens' numbers, which of them count, and which of them are of the text.
INPUTS = {
    "ids": ("input_ids", "ids"),
    "mask": ("attention_mask", "input_mask"),
    "types": ("token_type_ids", "segment_ids"),
}


@dataclass(frozen=True)
class Passages:
    """Where in its text each token of a question's input lies: n x tokens x 2, its first character and the one behind
    its last, -1 of tokens that are none of the text. ``cut``: texts that lack their end."""

    offsets: NDArray[np.int32]
    contexts: list[str]
    cut: NDArray[np.bool_]


class Questions(Dataset):
    """Questions and texts, tokenised in pairs; all inputs have one length."""

    name = ""

    def __init__(
        self,
        collection: Collection,
        source: ModelSource,
        model: ModelArtifact,
        spans: SpansSpec,
        base_dir: Path,
    ) -> None:
        self.name = collection.shown_name  # type: ignore[misc]  # of this one, not of its class
        self.collection, self._model = collection, model
        self._specs = {_part(spec, model): spec for spec in model.inputs}
        if "ids" not in self._specs:
            raise _no_questions(model)
        fixed = {spec.shape[0] for spec in model.inputs} - {-1}
        if len(fixed) > 1:
            raise _no_questions(model)
        self.length = next(iter(fixed), spans.max_tokens)
        self._tokenizer = _tokenizer(tokenizer_path(spans, source, base_dir, model.name), self.length)

    def __len__(self) -> int:
        return self.collection.count

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        encoded = self._encoded(indices)
        parts = {
            "ids": [each.ids for each in encoded],
            "mask": [each.attention_mask for each in encoded],
            "types": [each.type_ids for each in encoded],
        }
        return {spec.name: np.array(parts[part], dtype=spec.dtype) for part, spec in self._specs.items()}

    def labels(self) -> None:
        return None

    def targets(self) -> Mapping[str, Array]:
        return self.collection.targets

    def passages(self, indices: NDArray[np.int64]) -> Passages:
        """Of the samples with these indices."""
        encoded = self._encoded(indices)
        offsets = np.full((len(encoded), self.length, 2), -1, dtype=np.int32)
        for row, each in zip(offsets, encoded, strict=True):
            if each.sequence_ids[0] is not None:
                raise InputError(
                    "the tokenizer puts no token before the question, whose scores would say that there is no answer; "
                    "take the model's own tokenizer.json, with its post_processor",
                    field=_FIELD,
                )
            for at, (part, span) in enumerate(zip(each.sequence_ids, each.offsets, strict=True)):
                if part == 1:
                    row[at] = span
        contexts = [context for _, context in self.collection.rows(indices)]
        return Passages(offsets, contexts, np.array([bool(each.overflowing) for each in encoded]))

    def _encoded(self, indices: NDArray[np.int64]) -> list[Any]:
        pairs = self.collection.rows(indices)
        try:
            encoded: list[Any] = self._tokenizer.encode_batch(pairs)
        except Exception as error:  # whatever the library, which is Rust's, makes of it
            longest = max((question for question, _ in pairs), key=len)
            raise InputError(
                f"{self.name}: a question leaves no room for its text in {self.length} tokens (the longest begins "
                f"{longest[:60]!r}): {error}; raise max_tokens",
                field="evaluate.spans.max_tokens",
            ) from error
        return encoded


def tokenizer_path(spans: SpansSpec, source: ModelSource, base_dir: Path, model: str) -> Path:
    """That of the submission, else of the model; InputError where there is none."""
    if spans.tokenizer is not None:
        return inside(base_dir, spans.tokenizer, _FIELD)
    own = source.folder / OWN if source.folder is not None else None
    if own is None or not own.is_file():
        raise InputError(
            f"{model} brings no {OWN}; give the one that it was trained with, beside the submission",
            field=_FIELD,
        )
    return own


def _tokenizer(path: Path, length: int) -> Any:
    require("torch")
    import tokenizers

    try:
        tokenizer = tokenizers.Tokenizer.from_str(read_plain(path, MAX_FILE_BYTES).decode())
    except Exception as error:
        raise InputError(f"{path.name} can't be read as a {OWN}: {error}", field=_FIELD) from error
    padding = tokenizer.padding or {}
    known = {token: tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>")}
    token = padding.get("pad_token") or next((name for name, at in known.items() if at is not None), None)
    if token is None:
        raise InputError(
            f"{path.name} has no token to fill up with (its padding, [PAD] or <pad>)", field=_FIELD
        )
    pad_id = padding.get("pad_id", known.get(token))
    tokenizer.enable_truncation(length, strategy="only_second")
    tokenizer.enable_padding(
        pad_id=pad_id, pad_token=token, pad_type_id=padding.get("pad_type_id", 0), length=length
    )
    return tokenizer


def _part(spec: TensorSpec, model: ModelArtifact) -> str:
    for part, names in INPUTS.items():
        if spec.name in names and len(spec.shape) == 1 and spec.dtype in ("int32", "int64"):
            return part
    raise _no_questions(model)


def _no_questions(model: ModelArtifact) -> InputError:
    takes = ", ".join(f"{s.name} {s.dtype}{list(s.shape)}" for s in model.inputs)
    allowed = "; ".join(" or ".join(names) for names in INPUTS.values())
    return InputError(
        f"{model.name} takes {takes}; of questions are made {allowed}: int32 or int64, [tokens], all of one length; "
        f"the first is needed",
        field="evaluate.dataset",
    )
