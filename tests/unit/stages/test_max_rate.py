"""Stage ``load`` with ``max_rate``: the probes are whole loads, and the answer is no more than what they say."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.contracts.handles import RequestSet
from inferbench_tasks.errors import LoadError
from inferbench_tasks.metrics import interference
from inferbench_tasks.stages import collect, max_rate, one_load
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.schema import JobSpec
from tests.samples import samples_table

SECOND = 1_000_000_000
CERTIFICATE: dict[str, Any] = {
    "valid": True, "reasons": [], "warnings": [], "withheld": {},
    "figures": {"growing_backlog": None, "steady_state": "steady"},
}  # fmt: skip


def job(**arrivals: Any) -> JobSpec:
    """p99 <= 20 ms, batches of 2, 10 s a probe."""
    return JobSpec.model_validate(
        {
            "name": "x",
            "model": {"kind": "zoo", "name": "digits"},
            "load": {
                "arrivals": {"kind": "max_rate", "start_rate_rps": 400, **arrivals},
                "batch_size": 2, "duration_s": 10, "warmup_s": 1,
            },
            "slo": {"p99_ms": 20},
        }
    )  # fmt: skip


class Server:
    """Answers in 5 ms up to its limit, beyond it a twentieth of the requests in 50; its probes are as ``order``ed."""

    def __init__(self, limit_rps: float) -> None:
        self.limit_rps = limit_rps
        self.orders: list[Any] = []

    def apply(self, order: Any, ctx: Context, folder: Path, endpoint: Any) -> one_load.Output:
        """One load: its records lie where a load's lie."""
        load = order.job.traffic
        self.orders.append(load)
        rng = np.random.default_rng(load.seed)
        count = int(load.arrivals.rate_rps * load.duration_s)
        intended = np.sort(rng.uniform(0, load.duration_s * SECOND, count)).astype(np.int64)
        slow = rng.random(count) < (0.0 if load.arrivals.rate_rps <= self.limit_rps else 0.05)
        done = intended + np.where(slow, 50, 5) * 1_000_000
        folder.mkdir(parents=True)
        path = folder / "samples.parquet"
        table = samples_table(
            {
                "intended_ns": intended, "sent_ns": intended, "first_byte_ns": done, "done_ns": done,
                "status": ["ok"] * count, "batch_size": np.full(count, 2), "phase": ["measure"] * count,
            }
        )  # fmt: skip
        pq.write_table(table, path)
        return one_load.Output(
            samples_path=str(path), monitors_path=None, measure_start_ns=0,
            measure_end_ns=int(load.duration_s * SECOND), epoch_offset_ns=0, requests=count,
            certificate=self.certificate(load), accuracy_ratio=None,
        )  # fmt: skip

    def certificate(self, load: Any) -> dict[str, Any]:
        """As it should be."""
        return CERTIFICATE


def searched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client_rps: float = 1e6, **arrivals: Any
) -> one_load.Output:
    """The stage's output of a search against that server, by a client that can send so much; nothing is disturbed."""
    monkeypatch.setattr(one_load, "apply", server.apply)
    monkeypatch.setattr(max_rate, "plan_of", lambda *order: SimpleNamespace(processing=None))
    monkeypatch.setattr(
        "inferbench_tasks.loadgen.ceiling.ceiling", lambda *plan: SimpleNamespace(requests_per_s=client_rps)
    )
    monkeypatch.setattr(
        interference.Interference, "compute", lambda self, measured: {"findings": [], "watched": True}
    )
    np.savez(tmp_path / "a.npz", scores=np.zeros((16, 10), np.float32))
    requests = RequestSet(path="r.npz", reference_path=str(tmp_path / "a.npz"), samples=16, digest="d")
    spec = job(**arrivals)

    def copy(job: JobSpec) -> Any:
        made = SimpleNamespace(
            run_id="r",
            job=job,
            generate=SimpleNamespace(requests=requests),
            serve=SimpleNamespace(balancer=None, replicas=()),
        )
        made.model_copy = lambda update: copy(update["job"])
        return made

    ctx = Context(data_dir=tmp_path, base_dir=tmp_path)
    return max_rate.search(copy(spec), ctx, tmp_path, cast(Any, None), cast(Any, spec.traffic.arrivals))


def test_the_answer_holds_the_servers_limit_and_the_run_is_the_probe_at_the_rate_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limit 900/s: kept below, broken above, within 5%; in samples twice as much; the records are that probe's."""
    server = Server(900.0)
    output = searched(server, tmp_path, monkeypatch)
    answer = output.max_rate
    assert answer is not None
    kept, broken = answer["interval"]["rps"]
    assert kept == answer["rps"] <= 900 < broken == answer["broken_rps"] <= kept * 1.05 * (1 + 1e-6)
    assert answer["samples_per_s"] == 2 * kept and answer["interval"]["samples_per_s"] == [
        2 * kept,
        2 * broken,
    ]
    assert answer["objective"] == "p99_ms <= 20, error_ratio <= 0"
    assert answer["probes"][answer["probe"]]["rate_rps"] == kept
    assert output.samples_path == str(tmp_path / "probes" / f"{answer['probe']:02d}" / "samples.parquet")
    others = max_rate.other_records(tmp_path, answer)
    assert len(others) == len(answer["probes"]) - 1 and Path(output.samples_path) not in others
    assert not output.certificate["warnings"]


def test_each_probe_is_a_poisson_load_with_arrivals_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No two share a seed, and each lasts what the user asked for."""
    server = Server(900.0)
    searched(server, tmp_path, monkeypatch)
    assert {load.arrivals.kind for load in server.orders} == {"poisson"}
    assert len({load.seed for load in server.orders}) == len(server.orders)
    assert {load.duration_s for load in server.orders} == {10.0}


def test_probes_that_are_not_valid_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every first probe of a rate is held up by its client and would break the rate: it is made again."""

    class Doubtful(Server):
        def certificate(self, load: Any) -> dict[str, Any]:
            rates = [order.arrivals.rate_rps for order in self.orders]
            if rates.count(load.arrivals.rate_rps) > 1:
                return CERTIFICATE
            reason = {"check": "client_stall", "text": "the sender was held up"}
            return {**CERTIFICATE, "valid": False, "reasons": [reason]}

    output = searched(Doubtful(900.0), tmp_path, monkeypatch)
    answer = output.max_rate
    assert answer is not None and answer["rps"] <= 900 < answer["broken_rps"] <= answer["rps"] * 1.06
    outcomes = [probe["outcome"] for probe in answer["probes"]]
    assert outcomes[::2] == ["unusable"] * (len(outcomes) // 2)
    assert "unusable" not in outcomes[1::2]
    assert any("don't count" in warning for warning in output.certificate["warnings"])


def test_a_client_that_can_send_no_more_leaves_a_lower_bound_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of its ceiling of 1,500/s, less what a busy second has more: no interval, and a warning."""
    server = Server(math.inf)
    output = searched(server, tmp_path, monkeypatch, client_rps=1500.0)
    answer = output.max_rate
    assert answer is not None
    assert 600 < answer["rps"] < 750 and answer["broken_rps"] is None and answer["interval"]["rps"] is None
    assert any("lower bound" in warning for warning in output.certificate["warnings"])


def test_a_search_that_has_no_time_left_says_so_and_keeps_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time for no probe but the first: what is known then."""
    now = [0.0]
    server = Server(900.0)
    plain = server.apply

    def slow(*order: Any) -> one_load.Output:
        now[0] += 30.0
        return plain(*order)

    monkeypatch.setattr(server, "apply", slow)
    monkeypatch.setattr("inferbench_tasks.stages.max_rate.time.monotonic", lambda: now[0])
    output = searched(server, tmp_path, monkeypatch, limit_s=40.0)
    answer = output.max_rate
    assert answer is not None and len(answer["probes"]) == 1
    assert answer["rps"] == 400 and "time" in answer["stopped"]


def test_a_server_that_is_gone_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads that do not come about say nothing of a rate; where none does any more, the last error stands."""

    class Gone(Server):
        def apply(self, *order: Any) -> one_load.Output:
            raise LoadError("the server is gone")

    with pytest.raises(LoadError, match="the server is gone"):
        searched(Gone(900.0), tmp_path, monkeypatch)


def test_a_replica_that_is_gone_ends_the_search_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what its load said; a rate that was kept before is no answer of a service that is not there any more."""

    class Gone(Server):
        calls = 0

        def apply(self, *order: Any) -> one_load.Output:
            self.calls += 1
            if self.calls > 1:
                raise LoadError("Replica 2 of 2 (h.cpu-1) ended while the load lasted")
            return super().apply(*order)

    ended = SimpleNamespace(look=lambda: None, reason="it ended")
    monkeypatch.setattr(max_rate, "Life", lambda replicas, balancer: ended)
    server = Gone(900.0)
    with pytest.raises(LoadError, match=r"Replica 2 of 2 \(h\.cpu-1\) ended"):
        searched(server, tmp_path, monkeypatch)
    assert server.calls == 2


def test_the_result_says_which_objective_a_rate_keeps() -> None:
    """By it the leaderboard groups such runs."""
    arrivals = collect.load_document(job())["arrivals"]
    assert arrivals["kind"] == "max_rate" and arrivals["objective"] == "p99_ms <= 20, error_ratio <= 0"
