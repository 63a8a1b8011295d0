"""What every serving backend promises, tested on every backend and launcher that can run here."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import psutil
import pytest

from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.backends.first_answer import check_answer
from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.launchers import records
from inferbench_tasks.stages.asked import ask as ask_all
from inferbench_tasks.submission.schema import LoadSpec
from tests.contract.benches import (
    OPTIONAL,
    PROCESSES,
    PROGRAMS,
    RUN,
    Bench,
    Kept,
    ask,
    combinations,
    leftovers,
    long_unless,
    of_onnx,
    of_several_formats,
    processes_over_http,
    with_programs,
)
from tests.serving_cases import bare_case

pytestmark = pytest.mark.integration
#: ``INFERBENCH_TEST_CYCLES=100 pytest tests/contract/test_backends.py -k start_and_stop`` goes on for longer.
CYCLES = int(os.environ.get("INFERBENCH_TEST_CYCLES", "2"))


def cannot_make(format_: str) -> str | None:
    """Why a model can't be brought into that format here; None if it can."""
    if format_ == "aotinductor" and not os.environ.get("INFERBENCH_TEST_OPTIONAL"):
        return "AOTInductor's compiler takes a minute; INFERBENCH_TEST_OPTIONAL=1 runs it"
    return FORMATS.load(format_)().unavailable()


def first_or_program(kind: str, launcher: str, protocol: str) -> bool:
    """Protocols are the program's: an engine of ours is asked by its first one, unless all is run."""
    return (kind, launcher) in PROGRAMS or protocol == BACKENDS.load(kind).protocols[0]


ALL, FIRST = combinations(), combinations(all_protocols=False)
#: Every engine gives the right answers and leaves nothing behind; what its program does is tested on one engine of it.
every = pytest.mark.parametrize("kept", long_unless(first_or_program, ALL), indirect=True)
every_program = pytest.mark.parametrize("kept", with_programs(PROGRAMS, ALL), indirect=True)
first_protocol = pytest.mark.parametrize("bench", with_programs(PROGRAMS, FIRST), indirect=True)
of_processes = pytest.mark.parametrize("bench", with_programs(PROCESSES, FIRST), indirect=True)
#: Where an axis of any size is each format's own.
OF_A_KIND = [*PROCESSES, *((kind, "process") for kind in ("openvino", "tflite", "torch_export"))]
of_a_kind = pytest.mark.parametrize("bench", with_programs(OF_A_KIND, FIRST), indirect=True)


def test_every_backend_is_asked_in_make_test() -> None:
    """By each of its launchers, whatever is left out."""
    found = long_unless(first_or_program, ALL)
    usual = {of.values[0][:2] for of in found if "long" not in {mark.name for mark in of.marks}}
    assert usual == {of.values[0][:2] for of in ALL}


def test_programs_that_are_asked_for_are_tested_as_programs() -> None:
    """``INFERBENCH_TEST_OPTIONAL=1`` brings those of others, which no engine of ours stands for."""
    assert {*OPTIONAL} <= {*PROGRAMS}


@every
def test_values_are_the_references_and_bad_input_is_refused(kept: Kept) -> None:
    """Every sample, alone and in batches, is answered as by the source model; so it is after bad requests.

    A wrong shape, dtype and name are errors and no crashes.
    """
    case, started = kept.bench.case(), kept.started()
    for rows in (1, 3, 8):
        for offset in range(0, 24, rows):
            answer = ask(started.probe, case, rows, offset)
            expected = {"scores": case.reference["scores"][offset : offset + rows]}
            assert check_answer(answer, expected, case.model, rows, 1e-5) <= 1e-5
    for bad in (
        {"x": np.zeros((1, 5), np.float32)},
        {"x": np.zeros((1, 6), np.int32)},
        {"y": np.zeros((1, 6), np.float32)},
    ):
        with pytest.raises(Refused):
            started.probe.infer(bad)
    expected = {"scores": case.reference["scores"][:1]}
    assert check_answer(ask(started.probe, case, 1), expected, case.model, 1, 1e-5) <= 1e-5


@pytest.mark.parametrize("kept", processes_over_http(), indirect=True)
def test_nobody_can_have_a_server_load_a_model(kept: Kept) -> None:
    """A port is every local user's: what asks there for another model, which may be code, is refused, and the one that
    is measured stays."""
    hostile = base64.b64encode(b"import os; os.abort()").decode()
    config = json.dumps({"name": "hostile", "backend": "python", "max_batch_size": 0})
    parameters = {"parameters": {"config": config, "file:1/model.py": hostile}}
    started = kept.started()
    for path, body in (
        ("/v2/repository/models/hostile/load", parameters),
        (f"/v2/repository/models/{started.endpoint.model_name}/load", parameters),
        ("/models?url=file:///tmp/hostile.mar", {}),
        ("/models/hostile", {}),
    ):
        assert _post(started.endpoint, path, body) >= 400, path
    assert started.backend.ready(started.probe)


def _post(endpoint: Endpoint, path: str, body: dict[str, Any]) -> int:
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=30)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


@every_program
def test_a_killed_server_is_noticed_within_a_second(kept: Kept) -> None:
    """kill -9: the launcher and the probe both see it."""
    started = kept.started()
    os.kill(started.server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 1
    while kept.bench.launcher.alive(started.server):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises((OSError, Refused)):
        ask(started.probe, kept.bench.case(), 1)


@pytest.mark.parametrize("bench", of_several_formats(), indirect=True)
def test_its_other_formats_are_served_too(bench: Bench) -> None:
    """A backend of several formats answers as the reference in each of them, alone and in a batch."""
    for format_ in bench.backend_class.formats[1:]:
        if reason := cannot_make(format_):
            pytest.skip(reason)
        case = bench.case_in(format_)
        bench.use(case)
        with bench.server() as started:
            for rows in (1, 8):
                expected = {"scores": case.reference["scores"][:rows]}
                assert check_answer(ask(started.probe, case, rows), expected, case.model, rows, 1e-5) <= 1e-5


@pytest.mark.parametrize("bench", with_programs(PROCESSES, of_onnx()), indirect=True)
def test_one_number_and_one_text_for_each_sample(bench: Bench) -> None:
    """[n] goes in and [n] comes out, by the first answer and under load, whether the server knows bare rows or not."""
    case = bare_case(bench.folder)
    bench.use(case)
    with bench.server() as started:
        for rows in (1, 3):
            answer = started.probe.infer({name: array[:rows] for name, array in case.samples.items()})
            assert check_answer(answer, case.reference, case.model, rows, 1e-5) <= 1e-5
        load = LoadSpec.model_validate(
            {
                "arrivals": {"kind": "closed_loop", "concurrency": 1},
                "duration_s": 60,
                "protocol": bench.protocol,
            }
        )
        folder = bench.folder / "asked"
        found = ask_all(
            load, case.samples, case.reference, started.endpoint, folder=folder, base_dir=bench.folder
        )
    assert found.statuses == {}
    for name, expected in case.reference.items():
        np.testing.assert_array_equal(found.outputs[name], expected)


@of_a_kind
def test_dynamic_shapes(bench: Bench) -> None:
    """An axis of any size takes different sizes from request to request."""
    case = bench.case(dynamic=True)
    with bench.server(dynamic=True) as started:
        for length in (1, 5, 3):
            x = case.samples["x"][:2, :length]
            answer = started.probe.infer({"x": x})
            expected = {"scores": case.reference["scores"][:2, :length]}
            assert check_answer(answer, expected, case.model, 2, 1e-5) <= 1e-5


@of_processes
def test_batching_really_batches(bench: Bench) -> None:
    """Concurrent single requests are executed together, each gets its own answer, the statistics show it."""
    if not bench.backend_class.batching:
        pytest.skip("has no dynamic batching")
    case = bench.case()
    with bench.server(batching={"max_batch_size": 8, "max_delay_ms": 100.0}) as started:
        with ExitStack() as stack:
            probes = [open_probe(started.endpoint) for _ in range(8)]
            for probe in probes:
                stack.callback(probe.close)
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda n: ask(probes[n], case, 1, n), range(8)))
        for n, answer in enumerate(answers):
            expected = {"scores": case.reference["scores"][n : n + 1]}
            assert check_answer(answer, expected, case.model, 1, 1e-5) <= 1e-5
        statistics = started.backend.statistics(started.probe)
        assert statistics is not None
        assert statistics["inference_count"] == 8
        assert statistics["execution_count"] < 8
        if "batch_stats" in statistics:
            assert max(batch["batch_size"] for batch in statistics["batch_stats"]) > 1


@first_protocol
def test_two_servers_side_by_side(bench: Bench) -> None:
    """Different ports, both answer; ending the first leaves the second."""
    case = bench.case()
    with ExitStack() as stack:
        first = stack.enter_context(bench.server(f"{RUN}-1"))
        second = stack.enter_context(bench.server(f"{RUN}-2"))
        assert first.endpoint.port != second.endpoint.port
        ask(first.probe, case, 1)
        records.end_run(bench.servers_dir, f"{RUN}-1")
        assert bench.launcher.alive(second.server)
        ask(second.probe, case, 1)


@first_protocol
@pytest.mark.timeout(300 + 20 * CYCLES)
def test_start_and_stop_leave_nothing_behind(
    bench: Bench, record_property: Callable[[str, object], None]
) -> None:
    """Again and again: no process, no record, no shared memory, no open file of ours.

    Shared memory of other tests' servers, beside this one, comes and goes; what is left behind stays.
    """
    shared_before = set(os.listdir("/dev/shm"))
    this = psutil.Process()
    fast = (bench.kind, bench.launcher_kind) == ("onnxruntime", "process")
    cycles = max(CYCLES, 5) if fast else CYCLES
    record_property("cell", f"{cycles} times")
    for cycle in range(cycles):
        with bench.server(f"{RUN}-{cycle}") as started:
            assert started.process_ms > 0
        if cycle == 0:
            files_before = this.num_fds()
    assert leftovers(RUN) == []
    shared_left = set(os.listdir("/dev/shm")) - shared_before
    deadline = time.monotonic() + 60
    while shared_left := shared_left & set(os.listdir("/dev/shm")):
        assert time.monotonic() < deadline, shared_left
        time.sleep(0.5)
    assert this.num_fds() <= files_before + 2
