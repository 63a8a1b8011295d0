"""What configurations that were not run would show, by plausible servers and by the settings alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.search.covering import Covering
from inferbench_tasks.analysis.search.outlook import ByServers, BySettings, Evidence, Prior
from inferbench_tasks.analysis.search.servers import MODELLED, plausible
from inferbench_tasks.analysis.search.surrogate import Array, encode

AXES: dict[str, list[Any]] = {
    "serve.backend": ["onnxruntime", "openvino"],
    "serve.threads": [1, 2],
    "serve.batching": [None, {"max_batch_size": 8, "max_delay_ms": 1.0}],
    "load.batch_size": [1, 4, 8],
    "load.arrivals.concurrency": [1, 4, 16],
}
SPACE = [dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values())]
ASKED = ("throughput_samples_per_s", "p99_ms")


def outlooks(logs: dict[str, Array], runs: int) -> tuple[ByServers, BySettings]:
    """Both views of these figures of the whole space, after some runs."""
    encoding = encode(SPACE)
    indexes = np.random.default_rng(3).choice(len(SPACE), runs, replace=False)
    evidence = Evidence(indexes, {name: values[indexes] for name, values in logs.items()})
    prior = Prior(SPACE, ASKED, encoding, seed=1)
    return ByServers(prior, evidence, ASKED), BySettings(encoding, evidence, ASKED, {})


def test_plausible_servers_obey_littles_law() -> None:
    """In a closed loop the mean latency is users over throughput, and its percentiles are in order; a sample
    costs its share of an hour.
    """
    names = list(MODELLED)
    showing = plausible(SPACE, names, np.random.default_rng(1), 20)
    logs = {name: showing[:, number] for number, name in enumerate(names)}
    users = np.array([point["load.arrivals.concurrency"] for point in SPACE])
    size = np.array([point["load.batch_size"] for point in SPACE])
    assert np.allclose(np.exp(logs["mean_ms"]), users / np.exp(logs["throughput_rps"]))
    assert np.allclose(logs["throughput_samples_per_s"] - logs["throughput_rps"], np.log(size))
    assert np.allclose(logs["cost_usd_per_1k_samples"], -logs["throughput_samples_per_s"])
    order = [logs[f"{name}_ms"] for name in ("p50", "p90", "p95", "p99", "p999")]
    assert all((low < high).all() for low, high in itertools.pairwise(order))


def test_settings_that_the_model_of_a_server_does_not_know_still_matter() -> None:
    """Two backends differ, and otherwise equal points of a setting with one value don't."""
    points = [{"backend": backend, "where": "here", "concurrency": 4} for backend in ("a", "b")]
    showing = plausible(points, ["throughput_rps"], np.random.default_rng(1), 50)
    assert np.abs(showing[:, 0, 0] - showing[:, 0, 1]).mean() > 0.2


def test_a_space_without_any_setting_of_a_server_has_an_outlook_too() -> None:
    """Nothing is swept that the model knows: finite figures all the same."""
    showing = plausible([{"network": n} for n in ("lan", "wifi")], ["p99_ms"], np.random.default_rng(1), 5)
    assert showing.shape == (5, 1, 2) and np.isfinite(showing).all()


def test_few_runs_of_a_plausible_server_tell_the_rest() -> None:
    """After eight runs the view by servers foretells the others better, within a quarter; and it knows that it does."""
    showing = plausible(SPACE, ASKED, np.random.default_rng(99), 1)[0]
    by_servers, by_settings = outlooks(dict(zip(ASKED, showing, strict=True)), 8)
    everywhere = np.arange(len(SPACE))
    errors = [np.abs(view.at(everywhere)[0] - showing.T).mean() for view in (by_servers, by_settings)]
    assert errors[0] < errors[1]
    assert errors[0] < 0.25
    assert by_servers.foretold > by_settings.foretold


def test_what_is_like_no_server_is_not_seen_as_one() -> None:
    """Figures that only sum up meaningless effects: the view by settings foretells them better."""
    rng = np.random.default_rng(5)
    flat = encode(SPACE).features
    logs = {name: flat @ rng.normal(0, 2, flat.shape[1]) for name in ASKED}
    logs["p99_ms"] = logs["p99_ms"] + 3 * logs["throughput_samples_per_s"]
    by_servers, by_settings = outlooks(logs, 14)
    assert by_settings.foretold > by_servers.foretold


@pytest.mark.parametrize("view", [0, 1])
def test_an_outlook_is_less_sure_where_nothing_was_run(view: int) -> None:
    """Variances are positive, and smaller at a point that was run than anywhere else."""
    showing = plausible(SPACE, ASKED, np.random.default_rng(99), 1)[0]
    outlook = outlooks(dict(zip(ASKED, showing, strict=True)), 6)[view]
    measured = np.random.default_rng(3).choice(len(SPACE), 6, replace=False)
    unknown = np.setdiff1d(np.arange(len(SPACE)), measured)
    variances = [np.diagonal(outlook.at(part)[1], axis1=1, axis2=2) for part in (measured, unknown)]
    assert all((part > 0).all() for part in variances)
    assert variances[0].mean() < variances[1].mean()


def test_the_first_points_have_every_pair_of_settings_that_so_few_can_have() -> None:
    """Four axes of two values: four points have nearly all of the 24 pairs, eight have all."""
    points = [dict(zip("abcd", values, strict=True)) for values in itertools.product([1, 2], repeat=4)]
    covering, rng = Covering(points), np.random.default_rng(1)
    measured: list[int] = []
    counts: list[int] = []
    for _ in range(8):
        candidates = np.setdiff1d(np.arange(len(points)), measured)
        measured.append(covering.next(candidates, measured, rng))
        pairs = {pair for i in measured for pair in itertools.combinations(points[i].items(), 2)}
        counts.append(len(pairs))
    assert counts[3] >= 20
    assert counts[-1] == 24
