"""MLPerf LoadGen's accuracy mode inside a sender: LoadGen's number of a sample is its row in the inputs."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from inferbench_tasks.clients.base import OK, Call
from inferbench_tasks.loadgen.kept_answers import KeepingCheck
from inferbench_tasks.loadgen.mlperf_accuracy import MODE, sample_digests
from inferbench_tasks.loadgen.mlperf_driver import SCENARIOS, LoadGenDriver, Sut
from inferbench_tasks.loadgen.mlperf_schedule import seeds
from inferbench_tasks.loadgen.payloads import build_groups


class AccuracySut(Sut):
    """LoadGen is given the SHA-256 of each sample's answer, and nothing for a request that failed."""

    #: Who has the answer that is ending; set with the client.
    check: KeepingCheck

    def answers_of(self, call: Call, status: str) -> Sequence[array.array[int]]:
        size = call.payload.batch_size
        digests = sample_digests(self.check.last)[:size] if status == OK else []
        # An answer with too few rows is told where answers are put to their samples.
        digests += [""] * (size - len(digests))
        return [array.array("B", bytes.fromhex(digest)) for digest in digests]


class AccuracyDriver(LoadGenDriver):
    """Every sample of the inputs once."""

    def _samples(self) -> int:
        assert self._plan.mlperf is not None
        return self._plan.mlperf.requests

    def _load(self, indices: list[int]) -> None:
        """MultiStream asks neighbours of LoadGen's order, each once. Behind them come the first ones again, for a last
        query that is not full; it is: see ``asked_by_loadgen``.
        """
        size = self._plan.batches[0].batch_size
        if size == 1:
            return
        count = self._samples()
        groups = [indices[at : at + size] for at in range(0, count, size)]
        np.save(self._plan.groups_path, np.array(groups, dtype=np.int64))
        payloads = build_groups(self._plan, groups)
        self._groups = {rows[0]: payload for rows, payload in zip(groups, payloads, strict=True)}

    def _settings(self, lg: Any) -> Any:
        plan = self._plan
        mlperf = plan.mlperf
        assert mlperf is not None
        settings = lg.TestSettings()
        settings.scenario = getattr(lg.TestScenario, SCENARIOS[mlperf.scenario])
        settings.mode = getattr(lg.TestMode, MODE)
        settings.qsl_rng_seed, settings.sample_index_rng_seed, settings.schedule_rng_seed = seeds(plan.seed)
        settings.min_query_count, settings.min_duration_ms = 1, 1
        settings.max_query_count = 0
        settings.multi_stream_samples_per_query = plan.batches[0].batch_size
        settings.server_target_qps = mlperf.rate_rps
        settings.server_target_latency_ns = round(mlperf.target_latency_ms * 1e6)
        return settings
