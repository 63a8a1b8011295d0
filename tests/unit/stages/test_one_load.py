"""A load whose server takes too much of its machine."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import psutil
import pytest

from inferbench_tasks.contracts.handles import RequestSet, ServerHandle
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.null_server import null_server
from inferbench_tasks.sandbox import limits, watch
from inferbench_tasks.stages import one_load
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.replica_watch import Counts
from tests.load_servers import load_plan


def test_a_server_that_eats_the_memory_ends_the_load_with_the_limit_in_its_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server is ended, the load long before its time, and its records are kept."""
    np.savez(tmp_path / "a.npz", output=np.zeros((16, 10), np.float32))
    requests = RequestSet(path="r.npz", reference_path=str(tmp_path / "a.npz"), samples=16, digest="d")
    monkeypatch.setattr("inferbench_tasks.loadgen.ceiling.check_ceiling", lambda *order, **more: None)
    monkeypatch.setattr("inferbench_tasks.stages.neighbours.beside", lambda *order: nullcontext([]))
    monkeypatch.setattr(one_load, "quiet_machine", lambda *order: None)
    monkeypatch.setattr(watch, "LOADED_EVERY_S", 0.2)
    monkeypatch.setattr(limits, "most_bytes", lambda: 1 << 20)
    with (
        null_server("http") as where,
        subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
        ) as eater,
    ):
        plan = load_plan(tmp_path, where, arrivals={"kind": "constant", "rate_rps": 50.0}, duration_s=120.0)
        monkeypatch.setattr(one_load, "plan_of", lambda *order: plan)
        started_ns = int(psutil.Process(eater.pid).create_time() * 1e9)
        server = ServerHandle(
            launcher="process", pid=eater.pid, started_ns=started_ns, log_path="x", config_path="x"
        )
        inp: Any = SimpleNamespace(
            run_id="r", job=SimpleNamespace(traffic=SimpleNamespace(
                samples_per_request=1, allow_unsafe_load=False, wait_for_quiet_s=0.0,
            ), serve=SimpleNamespace(device="cpu")),
            generate=SimpleNamespace(requests=requests),
            serve=SimpleNamespace(server=server, endpoint=where, backend=SimpleNamespace(settings={}, drawn={}),
                                  replicas=(), replicas_here=(), far_replicas=(), balancer=None),
        )  # fmt: skip
        with pytest.raises(LoadError, match=r"^The server had .* MiB of memory; allowed are 1 ") as raised:
            one_load.apply(inp, Context(data_dir=tmp_path, base_dir=tmp_path), tmp_path, cast(Any, where))
        assert eater.wait(20) < 0
    assert limits.MEMORY in str(raised.value) and "records are kept in" in str(raised.value)


def test_a_far_host_that_is_gone_is_found_before_it_is_asked_for_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who connects to it waits whether the job is run again; a question that fails at once would end the job."""

    class Gone:
        def __init__(self, *order: Any) -> None:
            pass

        def __enter__(self) -> None:
            raise LoadError("the link was lost")

        def __exit__(self, *order: Any) -> None:
            raise AssertionError("it was never entered")

    asked: list[Any] = []
    monkeypatch.setattr(one_load, "Following", Gone)
    monkeypatch.setattr(Counts, "begun", asked.append)
    for name in ("plan_of", "client_ceiling", "quiet_machine"):
        monkeypatch.setattr(one_load, name, lambda *order: None)
    inp: Any = SimpleNamespace(
        job=SimpleNamespace(traffic=SimpleNamespace(wait_for_quiet_s=0.0)),
        serve=SimpleNamespace(
            endpoint=None,
            backend=SimpleNamespace(drawn={}),
            replicas=("far",),
            replicas_here=(),
            far_replicas=("far",),
        ),
    )
    with pytest.raises(LoadError, match="the link was lost"):
        one_load.apply(inp, Context(data_dir=tmp_path, base_dir=tmp_path), tmp_path, cast(Any, None))
    assert asked == []
