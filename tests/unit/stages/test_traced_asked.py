"""How the stage ``trace`` asks its requests one by one, by the orders that its sender is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from inferbench_tasks.backends.first_answer import load_samples
from inferbench_tasks.contracts.handles import Endpoint, Processing, ProcessorStep
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.payloads import build_payloads
from inferbench_tasks.loadgen.plan import LoadPlan, OutputShape
from inferbench_tasks.processors.pipeline import RAW
from inferbench_tasks.requests.ragged import objects, packed
from inferbench_tasks.stages import traced
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.trace_input import Input
from inferbench_tasks.submission.schema import LoadSpec
from tests.samples import samples_table, write_table
from tests.serving_cases import dense_case, serve_input


@pytest.mark.parametrize(
    ("own_batch", "requests", "count", "rows"),
    [(None, 30, 30, 30), (None, 50, 32, 32), (4, 30, 8, 32), (4, 3, 3, 12), (64, 30, 1, 32)],
)
def test_a_request_has_one_sample_or_the_models_own_batch(
    own_batch: int | None,
    requests: int,
    count: int,
    rows: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 32 samples, with a load of eight a request: as many requests as are asked for and have samples of their own.
    A model that takes exactly four in each call is asked four at a time."""
    case = dense_case(tmp_path)
    given = serve_input(case, tmp_path, load={"batch_size": own_batch or 8})
    job = given.job.model_dump(mode="json") | {"trace": {"requests": requests}}
    fields = given.model_dump() | {"job": job}
    inp = Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})
    model = inp.convert.model.model_copy(update={"batch_size": own_batch})
    inp = inp.model_copy(update={"convert": inp.convert.model_copy(update={"model": model})})
    seen: list[tuple[LoadSpec, int]] = []

    def prepare(load: LoadSpec, *, inputs_path: str, **_: Any) -> NoReturn:
        with np.load(inputs_path) as archive:
            seen.append((load, len(archive["x"])))
        raise LoadError("nothing is sent here")

    monkeypatch.setattr(traced, "prepare", prepare)
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="dense")
    with pytest.raises(LoadError, match="nothing is sent here"):
        traced.ask(inp, Context(data_dir=tmp_path / "data"), endpoint, tmp_path / "asked", None)
    ((load, samples),) = seen
    assert (load.samples_per_request, load.max_requests, samples) == (own_batch or 1, count, rows)
    assert traced.batch_size(inp) == (own_batch or 1)


@pytest.mark.parametrize(
    ("asked", "own_batch", "size", "count", "rows"),
    [
        (8, None, 8, 5, 32),
        ("load", None, 3, 5, 15),
        (1, None, 1, 5, 5),
        (64, None, 64, 5, 32),
        (4, 4, 4, 5, 20),
    ],
)
def test_a_trace_has_the_batch_that_it_asks_for(
    asked: int | str,
    own_batch: int | None,
    size: int,
    count: int,
    rows: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 32 samples, with a load of three a request and five traced ones: so many in each, each in a trace of its own
    by its number, samples again where there are too few; ``load`` is the load's."""
    given = serve_input(dense_case(tmp_path), tmp_path, load={"batch_size": 3})
    job = given.job.model_dump(mode="json") | {"trace": {"requests": 5, "batch_size": asked}}
    fields = given.model_dump() | {"job": job}
    inp = Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})
    model = inp.convert.model.model_copy(update={"batch_size": own_batch})
    inp = inp.model_copy(update={"convert": inp.convert.model_copy(update={"model": model})})
    plans: list[LoadPlan] = []

    def applied(plan: LoadPlan, *_: Any) -> NoReturn:
        plans.append(plan)
        raise LoadError("nothing is sent here")

    monkeypatch.setattr(traced, "applied", applied)
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="dense")
    with pytest.raises(LoadError, match="nothing is sent here"):
        traced.ask(inp, Context(data_dir=tmp_path / "data"), endpoint, tmp_path / "asked", "seed")
    (plan,) = plans
    with np.load(plan.inputs_path) as archive:
        assert len(archive["x"]) == rows
    assert traced.batch_size(inp) == size == plan.batches[0].batch_size
    assert (plan.segments[-1].max_requests, plan.trace_seed, plan.trace_one_in) == (count, "seed", 1)
    payloads = build_payloads(plan)
    contexts = {dict(payloads[number].metadata)["traceparent"] for number in range(count)}
    assert len(contexts) == count and all(payloads[number].batch_size == size for number in range(count))


def test_samples_for_processors_in_the_server_are_sent_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three files of different lengths, whose answers are words: two requests carry the first two, byte for byte."""
    files = [b"a", b"a longer one\0", b"last"]
    words = np.array([["cat"], ["dog"], ["cat"]], dtype=np.object_)
    np.savez(tmp_path / "sent.npz", allow_pickle=False, **packed({RAW: objects(files)}))
    np.savez(tmp_path / "answered.npz", allow_pickle=False, **packed({"labels": words}))
    given = serve_input(dense_case(tmp_path), tmp_path)
    job = given.job.model_dump(mode="json") | {"trace": {"requests": 2}}
    fields = given.model_dump() | {"job": job}
    inp = Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})
    processing = Processing(
        side="server", before=(ProcessorStep(kind="image"),), sent_path=str(tmp_path / "sent.npz"),
        answered_path=str(tmp_path / "answered.npz"),
    )  # fmt: skip
    requests = inp.generate.requests.model_copy(update={"processing": processing})
    inp = inp.model_copy(update={"generate": inp.generate.model_copy(update={"requests": requests})})
    assert requests.in_server is processing
    seen: list[tuple[list[bytes], dict[str, OutputShape]]] = []

    def prepare(load: LoadSpec, *, inputs_path: str, expected: dict[str, OutputShape], **_: Any) -> NoReturn:
        seen.append((load_samples(inputs_path)[RAW].tolist(), expected))
        raise LoadError("nothing is sent here")

    monkeypatch.setattr(traced, "prepare", prepare)
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="dense")
    with pytest.raises(LoadError, match="nothing is sent here"):
        traced.ask(inp, Context(data_dir=tmp_path / "data"), endpoint, tmp_path / "asked", None)
    assert seen == [(files[:2], {"labels": OutputShape(shape=(1,))})]


@pytest.mark.parametrize(("block", "state"), [({"batch_size": 2}, "ot=th:0"), ({}, None)])
def test_a_request_says_the_state_that_it_was_sent_with(
    block: dict[str, Any], state: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a size of its own each request is one in one, and says so to the server as on its own span; without, none
    does either."""
    given = serve_input(dense_case(tmp_path), tmp_path)
    job = given.job.model_dump(mode="json") | {"trace": {"requests": 3, **block}}
    fields = given.model_dump() | {"job": job}
    inp = Input.model_validate({name: fields[name] for name in Input.model_fields if name in fields})
    sent: list[str | None] = []

    def applied(plan: LoadPlan, path: Path, *_: Any) -> None:
        payloads = build_payloads(plan)
        sent.extend(dict(payloads[number].metadata).get("tracestate") for number in range(3))
        write_table(samples_table({"intended_ns": np.arange(3) * 1000, "sample_index": np.arange(3)}), path)

    monkeypatch.setattr(traced, "applied", applied)
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=1, model_name="dense")
    asked = traced.ask(inp, Context(data_dir=tmp_path / "data"), endpoint, tmp_path / "asked", "seed")
    assert sent == [state] * 3
    assert [one.about.get("tracestate") for one in asked] == [state] * 3
