"""What a server's start drew is taken out of its settings, and nothing else is."""

from __future__ import annotations

import copy

from inferbench_tasks.contracts.drawn import apart, settled

#: As an earlier version stored them: of Triton, MLServer and TorchServe.
STORED = {
    "threads": 2,
    "metrics_port": 40123,
    "trace": {"file": "/data/runs/a/server/trace/trace.json", "one_of": 5},
    "settings": {
        "host": "127.0.0.1",
        "http_port": 1,
        "grpc_port": 2,
        "metrics_port": 3,
        "parallel_workers": 2,
    },
    "options": {"initial_worker_port": "9", "model_store": "/data/runs/a/store", "job_queue_size": "8192"},
    "env": {"OMP_NUM_THREADS": "2", "PYTHONPATH": "/data/runs/a/server/mlserver"},
}


def test_ports_and_files_of_a_run_are_taken_out_at_any_depth() -> None:
    """What was asked for stays as it is, beside them in the same part too; the stored document is not touched."""
    before = copy.deepcopy(STORED)
    settings, drawn = apart(STORED)
    assert settings == {
        "threads": 2,
        "trace": {"one_of": 5},
        "settings": {"host": "127.0.0.1", "parallel_workers": 2},
        "options": {"job_queue_size": "8192"},
        "env": {"OMP_NUM_THREADS": "2"},
    }
    assert drawn == {
        "metrics_port": 40123,
        "trace": {"file": "/data/runs/a/server/trace/trace.json"},
        "settings": {"http_port": 1, "grpc_port": 2, "metrics_port": 3},
        "options": {"initial_worker_port": "9", "model_store": "/data/runs/a/store"},
        "env": {"PYTHONPATH": "/data/runs/a/server/mlserver"},
    }
    assert before == STORED


def test_settings_without_any_stay() -> None:
    """Those of our own server, and a part that is no mapping where another backend has one."""
    plain = {"threads": 1, "options": "none", "trace": None, "batching": {"max_batch_size": 8}}
    assert settled(plain) == plain
