"""The server's counts of tokens against a tokenizer of ours, after the load: every figure of tokens is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.clients.openai_form import PATHS
from inferbench_tasks.loadgen.evidence import Check
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.records import column, is_ok
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.token_records import STREAMS_WRITTEN, read_table

_READ = pa.schema(
    [STREAMS_WRITTEN.field(name) for name in ("request_id", "prompt_tokens", "output_tokens", "text_tokens")]
)
#: What a server may put around each prompt: a chat template; of a bare prompt, the token with which all begins.
TEMPLATE_TOKENS = 128
_BARE_TOKENS = 1


@dataclass(frozen=True)
class TokenCounts:
    """Tokens of good answers: by the server and by the tokenizer. Of prompts the template's are told apart.

    ``template_tokens``: what the server counts beyond the prompt's text, in most requests; None without a prompt whose
    text is known. Requests whose count one of both does not tell are left out.
    """

    template_tokens: int | None
    prompt_tokens: int
    prompt_error_tokens: int
    answer_tokens: int
    answer_error_tokens: int

    @classmethod
    def of(cls, plan: LoadPlan, records: pa.Table, streams_path: Path) -> TokenCounts:
        """Of all requests of a load, warm-up and all."""
        inputs = read_inputs(plan.inputs_path)
        streams, _ = read_table(streams_path, _READ)
        numbers = column(records, "request_id")
        known = np.isin(streams["request_id"], numbers)
        streams = {name: values[known] for name, values in streams.items()}
        order = np.argsort(numbers, kind="stable")
        row = order[np.searchsorted(numbers[order], streams["request_id"])]
        good = is_ok(records)[row]
        text = inputs["text_tokens"][column(records, "sample_index")[row]]
        told = good & (text >= 0) & (streams["prompt_tokens"] >= 0)
        if plan.turn_step:  # later turns carry what was said before them
            told &= streams["request_id"] < plan.turn_step
        chat = plan.stream is not None and plan.stream.path.endswith(PATHS["chat"])
        said = streams["prompt_tokens"][told].astype(np.int64)
        around = said - text[told]
        template = _usual(around, TEMPLATE_TOKENS if chat else _BARE_TOKENS)
        answered = good & (streams["text_tokens"] >= 0) & (streams["output_tokens"] >= 0)
        made = streams["output_tokens"][answered].astype(np.int64)
        return cls(
            template_tokens=template,
            prompt_tokens=int(said.sum()),
            prompt_error_tokens=int(np.abs(around - (template or 0)).sum()),
            answer_tokens=int(made.sum()),
            answer_error_tokens=int(np.abs(made - streams["text_tokens"][answered]).sum()),
        )

    @property
    def prompt_error_ratio(self) -> float | None:
        """Tokens by which both counts of a prompt differ, by the server's; None where there are none."""
        return self.prompt_error_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def answer_error_ratio(self) -> float | None:
        """The same of the answers."""
        return self.answer_error_tokens / self.answer_tokens if self.answer_tokens else None

    def figures(self) -> dict[str, Any]:
        """For the certificate."""
        return {
            "template_tokens": self.template_tokens,
            "prompt_tokens_error_ratio": self.prompt_error_ratio,
            "answer_tokens_error_ratio": self.answer_error_ratio,
        }

    def checks(self, limits: Thresholds) -> Iterator[Check]:
        """Both, where there is something to compare."""
        if (ratio := self.prompt_error_ratio) is not None:
            yield Check.at_most(
                "prompt_token_counts", ratio, limits.prompt_tokens_error_ratio, "ratio",
                f"the server's counts of the prompts' tokens differ from the tokenizer's by {ratio:.2%} (at most "
                f"{limits.prompt_tokens_error_ratio:.0%}): by {self.prompt_error_tokens:,} of {self.prompt_tokens:,}, "
                f"where {self.template_tokens} of each are taken for its chat template's",
            )  # fmt: skip
        if (ratio := self.answer_error_ratio) is not None:
            yield Check.at_most(
                "answer_token_counts", ratio, limits.answer_tokens_error_ratio, "ratio",
                f"the server's counts of the answers' tokens differ from those of their text by {ratio:.2%} (at most "
                f"{limits.answer_tokens_error_ratio:.0%}): by {self.answer_error_tokens:,} of {self.answer_tokens:,}",
            )  # fmt: skip


def _usual(around: NDArray[np.int64], most: int) -> int | None:
    """What most requests have, within what a template can be."""
    if not len(around):
        return None
    values, counts = np.unique(around, return_counts=True)
    return int(np.clip(values[np.argmax(counts)], 0, most))
