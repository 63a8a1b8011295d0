"""The tokenizer of a GGUF file, built of its own fields: what a server of the file counts, nobody has to guess."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.token_batches import counted

#: ``tokenizer.ggml.token_type`` of what is a token as a whole, wherever it stands: of control, which says nothing, and
#: the maker's own, which is text.
_CONTROL, _OWN = 3, 4


def _smollm() -> Any:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


#: ``tokenizer.ggml.pre`` -> how texts are cut before pairs are merged; those that were compared with llama.cpp's ids.
CUTS: dict[str, Callable[[], Any]] = {"smollm": _smollm}


class Tokenizer:
    """Counts the tokens of texts as a server of the file does that adds nothing to them."""

    def __init__(self, fields: dict[str, Any]) -> None:
        """InputError where the fields describe no tokenizer, or one that was never compared with llama.cpp's."""
        if (reason := not_counted(fields)) is not None:
            raise InputError(reason, field="model.path")
        require("llm")
        from tokenizers import AddedToken, Tokenizer, decoders, models

        tokens: list[str] = fields["tokenizer.ggml.tokens"]
        merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
        vocabulary = {token: number for number, token in enumerate(tokens)}
        try:
            self._tokenizer = Tokenizer(models.BPE(vocabulary, merges))
        except Exception as error:  # the library raises Exception itself
            raise InputError(f"its tokenizer is damaged: {error}", field="model.path") from error
        self._tokenizer.pre_tokenizer = CUTS[fields["tokenizer.ggml.pre"]]()
        self._tokenizer.decoder = decoders.ByteLevel()
        types = fields.get("tokenizer.ggml.token_type") or [1] * len(tokens)
        for kind, add in ((_CONTROL, self._tokenizer.add_special_tokens), (_OWN, self._tokenizer.add_tokens)):
            whole = [token for token, its in zip(tokens, types, strict=False) if its == kind]
            add([AddedToken(token, normalized=False) for token in whole])

    def ids(self, text: str) -> list[int]:
        """The tokens of a text."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """What tokens say, those of control left out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def json(self) -> str:
        """As ``tokenizer.json``, which Hugging Face's libraries read."""
        return str(self._tokenizer.to_str())

    def count(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has."""
        return counted(self._tokenizer, texts)


def not_counted(fields: dict[str, Any]) -> str | None:
    """Why texts can't be counted by these fields; None where they can."""
    model, cut = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if model != "gpt2" or not isinstance(cut, str) or cut not in CUTS:
        found = f"{str(model)[:40]!r} cut as {str(cut)[:40]!r}"
        return f"its tokenizer is {found}; those of 'gpt2' cut as {', '.join(CUTS)} are counted here"
    for name in ("tokens", "merges"):
        values = fields.get(f"tokenizer.ggml.{name}")
        if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
            return f"its tokenizer has no {name}"
    if any(" " not in merge for merge in fields["tokenizer.ggml.merges"]):
        return "its tokenizer is damaged: a merge is of no two tokens"
    return None
