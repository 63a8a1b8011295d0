"""The first answer of a language model whose words are known: weights that were read wrongly say something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from inferbench_tasks.clients.openai_form import PATHS, StreamTarget
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import ServerError
from inferbench_tasks.submission.schema import LoadSpec

_MOST_TOKENS = 16


class Known(NamedTuple):
    """What a model says to a prompt if each token is the likeliest."""

    prompt: str
    answer: str


#: By the digest of the model's file, before any conversion. As recorded with llama.cpp b11549; the second likeliest
#: token was 1.4 nats or more behind everywhere, so that another order of sums, as of another CPU, says the same.
KNOWN = {
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53": Known(
        "Repeat after me: one two three four five six seven.", "One two three four five six seven."
    ),
}


def check_known_answer(digest: str, load: LoadSpec, endpoint: Endpoint, folder: Path, base_dir: Path) -> None:
    """Ask the model with that digest, if its words are known; ServerError where it says something else."""
    known = KNOWN.get(digest)
    if known is None:
        return
    # The load generator: not for each task of Airflow that makes the plan of the stages anew.
    from inferbench_tasks.loadgen.first_request import ask_once
    from inferbench_tasks.loadgen.prepare import prepare
    from inferbench_tasks.loadgen.token_load import TokenOptions, write_requests

    folder.mkdir(parents=True, exist_ok=True)
    prompts = folder / "prompt.jsonl"
    prompts.write_text(json.dumps({"prompt": known.prompt}))
    options = TokenOptions(
        prompts=prompts,
        salt=False,
        output_tokens={"kind": "fixed", "value": _MOST_TOKENS},
        extra_body=json.dumps({"temperature": 0}),
    )
    inputs = folder / "prompt.npz"
    one = load.model_copy(update={"shards": 1})
    write_requests(options, endpoint, one, inputs, base_dir)
    plan = prepare(
        one,
        folder=folder,
        endpoint=endpoint,
        inputs_path=str(inputs),
        base_dir=base_dir,
        stream=StreamTarget(path=f"/v1/{PATHS['chat']}"),
    )
    said = ask_once(plan)
    if said.strip() != known.answer:
        raise ServerError(
            f"The model says {said[:200]!r} to {known.prompt!r}, and as recorded {known.answer!r}: the server "
            "reads its weights or its chat template otherwise"
        )
