"""Submissions to try: valid ones, the same ones spelled otherwise, and ones with something broken."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from inferbench_tasks.submission.scalars import AmbiguousScalarError, read_plain


def _is_plain_text(text: str) -> bool:
    """Whether it is text without quotes too; ``nO`` is refused then, though PyYAML writes it so."""
    try:
        return read_plain(text) == text
    except AmbiguousScalarError:
        return False


SLUGS = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,10}", fullmatch=True).filter(_is_plain_text)
MODELS = st.one_of(
    st.just({"kind": "zoo", "name": "digits"}),
    st.fixed_dictionaries({"kind": st.just("registry"), "name": SLUGS}),
    st.fixed_dictionaries(
        {"kind": st.just("canonical"), "family": st.just("mlp")},
        optional={"layers": st.integers(1, 8), "neurons": st.integers(1, 512)},
    ),
    st.fixed_dictionaries(
        {"kind": st.just("canonical"), "family": st.sampled_from(["cnn", "rnn", "transformer"])},
        optional={"framework": st.just("torch"), "training": st.just({"epochs": 2})},
    ),
)
ARRIVALS = st.one_of(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["poisson", "constant"]),
            "rate_rps": st.integers(1, 5000) | st.floats(1, 5000),
        }
    ),
    st.fixed_dictionaries(
        {"kind": st.just("closed_loop"), "concurrency": st.integers(64, 100)},
        optional={"think_time_ms": st.floats(0, 100)},
    ),
)


@st.composite
def submissions(draw: st.DrawFn) -> dict[str, Any]:
    """A valid submission without a sweep, as data; optional keys come and go."""
    load = draw(
        st.fixed_dictionaries(
            {"arrivals": ARRIVALS},
            optional={
                "duration_s": st.integers(5, 60),
                "warmup_s": st.floats(0, 10),
                "batch_size": st.integers(1, 8),
                "seed": st.integers(0, 2**63 - 1),
                "shards": st.just("auto") | st.integers(1, 4),
                "realtime": st.booleans(),
            },
        )
    )
    data = draw(
        st.fixed_dictionaries(
            {"name": SLUGS, "model": MODELS, "load": st.just(load)},
            optional={
                "user": SLUGS,
                "description": st.text(
                    st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=50
                ),
                "tags": st.lists(SLUGS, max_size=3),
                "serve": st.fixed_dictionaries(
                    {},
                    optional={
                        "threads": st.integers(1, 16),
                        "batching": st.none()
                        | st.just({"max_batch_size": 16})
                        | st.just({"max_batch_size": 8}),
                    },
                ),
                "slo": st.none() | st.just({"latency_p99_ms": 50}) | st.just({"latency_p99_ms": 50.0}),
            },
        )
    )
    return data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def broken(draw: st.DrawFn) -> dict[str, Any]:
    """A submission in which one place, anywhere, holds something else."""
    data: dict[str, Any] = copy.deepcopy(draw(submissions()))  # parts of it are shared between examples
    if draw(st.booleans()):
        paths = st.sampled_from(["serve.threads", "load", "zip"])
        data["sweep"] = draw(JSON | st.dictionaries(paths, JSON, max_size=3))
    place: dict[str, Any] = data
    while True:
        key = draw(st.sampled_from([*place, "surprise"]))
        if isinstance(place.get(key), dict) and draw(st.booleans()):
            place = place[key]
            continue
        place[key] = draw(JSON)
        return data
