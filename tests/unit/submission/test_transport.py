"""``load.transport``: what it can't go with is refused before anything starts; the default changes no digest."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.reader import read_submission_text
from tests.unit.submission.test_check import CHAT, IN_SERVER, TFS, spec

DRAWN = {"kind": "uniform", "min": 1, "max": 9}
SHARED = {"transport": "shared_memory"}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({}, {"serve": {"backend": "mlserver"}}, "serve.backend", "mlserver reads no inputs from shared memory"),
    ({"protocol": "grpc"}, TFS, "serve.backend", "tfs_protocol reads no inputs from shared memory"),
    ({}, {"serve": {"launcher": "container"}}, "serve.launcher", "use launcher: process"),
    ({"network": "wifi"}, {}, "load.network", "use network: lan"),
    ({"client": "tritonclient"}, {}, "load.client", "use fast or reference"),
    (
        {"arrivals": {"kind": "single_stream"}, "engine": "mlperf_loadgen"}, {}, "load.engine",
        "LoadGen chooses the samples",
    ),
    ({}, {"processors": {**IN_SERVER, "side": "client"}}, "processors.side", "use side: server"),
    ({}, {"evaluate": {}}, "evaluate", "requests of its own"),
    ({}, {"trace": {}}, "trace", "requests of its own"),
    ({"protocol": "openai"}, CHAT, "load.protocol", "are texts"),
    (
        {}, {"requests": {"kind": "random", "sizes": [{"axes": ["x.1"], "size": DRAWN}]}},
        "requests.sizes", "no fixed place",
    ),
]  # fmt: skip


@pytest.mark.parametrize("serve", [{}, {"backend": "triton"}])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_our_own_server_and_triton_take_it(serve: dict[str, Any], protocol: str) -> None:
    """Over both protocols of KServe."""
    assert not INSTALLED.findings(spec({**SHARED, "protocol": protocol}, serve=serve))


@pytest.mark.parametrize(("load", "more", "field", "words"), REFUSED)
def test_what_it_cannot_go_with_is_refused(
    load: dict[str, Any], more: dict[str, Any], field: str, words: str
) -> None:
    """With the other field and a remedy; over the network the same is not refused for this."""
    of_transport = [
        f for f in INSTALLED.findings(spec({**SHARED, **load}, **more)) if f.fields[0] == "load.transport"
    ]
    assert [(f.fields[1], words in f.message, "transport" in f.message) for f in of_transport] == [
        (field, True, True)
    ]
    assert all(f.fields[0] != "load.transport" for f in INSTALLED.findings(spec(load, **more)))


def test_a_refusal_names_the_line() -> None:
    """Of the submission's text."""
    text = (
        "name: a\nmodel: {kind: zoo, name: digits}\nload:\n  arrivals: {kind: poisson, rate_rps: 50}\n"
        "  transport: shared_memory\n  network: wifi\n"
    )
    with pytest.raises(SubmissionError, match=r"x\.yaml:5.*load\.transport|load\.transport.*x\.yaml:5"):
        read_submission_text(text, "x.yaml", INSTALLED)


def test_the_network_is_the_default_and_no_part_of_a_digest() -> None:
    """Jobs of before keep theirs; another transport is another job."""
    assert job_digest(spec()) == job_digest(spec({"transport": "network"}))
    assert job_digest(spec()) != job_digest(spec(SHARED))
