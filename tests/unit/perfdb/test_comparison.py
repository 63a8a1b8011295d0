"""Results side by side as people read them."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.perfdb.comparison import GROUNDS, compare, shown
from tests.unit.perfdb.builders import result


def of(run_id: str, mib: float, failed: float, p99: float, batch: int) -> Any:
    """A run with so much memory, failures, latency and samples in a request."""
    summary = {
        "e2e_latency_ms": {"p99": p99},
        "error_ratio": failed,
        "resources": {"server": {"rss_bytes": {"max": mib * 2**20}}},
    }
    load = {"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "batch_size": batch, "duration_s": 10.0}
    return result(run_id, summary=summary, load=load)


def test_figures_have_the_units_of_all_lists() -> None:
    """96 MiB are stored as 100,663,296 bytes, 2% as 0.02; ratios, settings and the stored rows stay what they are."""
    stored = compare([of("a", 96.0, 0.02, 20.0, 4), of("b", 48.0, 0.01, 30.0, 8)])
    rows = {row["field"]: row for row in shown(stored)}
    assert rows["rss_bytes"] == {"field": "rss_bytes", "unit": "MiB", "a": 96.0, "b": 48.0, "b ratio": 0.5}
    assert rows["error_ratio"] == {"field": "error_ratio", "unit": "%", "a": 2.0, "b": 1.0, "b ratio": 0.5}
    assert rows["p99_ms"] == {"field": "p99_ms", "unit": "ms", "a": 20.0, "b": 30.0, "b ratio": 1.5}
    assert rows["batch"] == {"field": "batch", "unit": None, "a": 4, "b": 8}
    bytes_stored = next(row for row in stored if row["field"] == "rss_bytes")
    assert bytes_stored == {"field": "rss_bytes", "a": 96.0 * 2**20, "b": 48.0 * 2**20, "b ratio": 0.5}
    assert [*next(iter(rows.values()))][:2] == ["field", "unit"]


def test_what_a_run_lacks_stays_so() -> None:
    """No number becomes none in another unit."""
    rows = {row["field"]: row for row in shown(compare([of("a", 96.0, 0.02, 20.0, 4), result("b")]))}
    assert rows["rss_bytes"]["b"] is None and rows["rss_bytes"]["b ratio"] is None


def emitting(run_id: str, joule: float, method: str, g_per_kwh: float) -> Any:
    """A run whose requests took so much, by that method, of that electricity."""
    summary = {
        "energy": {"joule_per_request": joule, "method": method},
        "carbon": {"g_per_kwh": g_per_kwh},
        "co2_g_per_1k": joule * 1000 / 3.6e6 * g_per_kwh,
    }
    return result(run_id, summary=summary)


def test_energies_of_two_methods_have_no_ratio() -> None:
    """0.2 J by a counter of the whole processor and 0.02 J by an estimate of the server's share are no tenth of each
    other; 0.2 J of 56 and of 448 g/kWh are the same energy, and no eighth of the emission. By one method, of one
    electricity, 0.1 J are a half of either."""
    runs = (
        emitting("a", 0.2, "rapl", 56),
        emitting("b", 0.02, "tdp_estimate", 56),
        emitting("c", 0.2, "rapl", 448),
    )
    rows = {row["field"]: row for row in compare([*runs, emitting("d", 0.1, "rapl", 56)])}
    ratios = {
        name: [rows[name][f"{run} ratio"] for run in "bcd"] for name in ("joule_per_request", "co2_g_per_1k")
    }
    assert ratios == {"joule_per_request": [None, 1.0, 0.5], "co2_g_per_1k": [None, None, 0.5]}
    assert rows["energy by"] == {
        "field": "energy by", "a": "rapl", "b": "tdp_estimate", "c": "rapl", "d": "rapl"
    }  # fmt: skip
    assert rows["electricity, g CO2e/kWh"]["c"] == 448
    assert not {*GROUNDS} & {row["field"] for row in compare([runs[0], runs[0]])}


def test_of_unlike_parts_of_a_machine_energies_have_no_ratio() -> None:
    """The packages' 0.2 J of a job on one of two cores, and 0.1 J of one on both: in the first is the idle power of a
    core that it had not. Two of one core each are a half of each other, and nothing is said.
    """

    def half(run_id: str, joule: float, cores: float) -> Any:
        energy = {"joule_per_request": joule, "method": "rapl", "machine": {"cores": cores, "of_cores": 2}}
        return result(run_id, summary={"energy": energy})

    what = "energy of the idle power of"
    rows = {row["field"]: row for row in compare([half("a", 0.2, 1.0), half("b", 0.1, 2.0)])}
    assert rows["joule_per_request"]["b ratio"] is None
    assert rows[what] == {"field": what, "a": "1 of 2 cores", "b": None}
    rows = {row["field"]: row for row in compare([half("a", 0.2, 1.0), half("b", 0.1, 1.0)])}
    assert rows["joule_per_request"]["b ratio"] == 0.5 and what not in rows


def test_costs_by_two_price_lists_say_so() -> None:
    """1 USD by a rate of January and 0.5 by one of June are a half, of which the price list may be a part: both dates
    stand above."""

    def priced(run_id: str, usd: float, date: str) -> Any:
        cost = {"usd_per_1k": usd, "instances": [{"usd_per_hour": 3.6 * usd, "date": date}]}
        return result(run_id, summary={"cost": cost, "cost_usd_per_1k": usd})

    rows = {
        row["field"]: row for row in compare([priced("a", 1.0, "2026-01-01"), priced("b", 0.5, "2026-06-01")])
    }
    assert rows["prices of"] == {"field": "prices of", "a": "2026-01-01", "b": "2026-06-01"}
    assert rows["cost_usd_per_1k"]["b ratio"] == 0.5


def test_a_highest_rate_that_is_a_lower_bound_has_no_ratio() -> None:
    """300/s and 600/s, above each of which a rate broke the objective: twice as much. A search that ended at 900/s
    without one may as well be at 9,000: no three times, neither of it nor by it."""

    def searched(run_id: str, rps: float, broken_rps: float | None) -> Any:
        found: dict[str, Any] = {"rps": rps, "samples_per_s": rps, "broken_rps": broken_rps}
        if broken_rps is not None:
            found["interval"] = {"rps": [rps, broken_rps], "samples_per_s": [rps, broken_rps]}
        return result(run_id, summary={"max_rate": found})

    runs = searched("a", 300.0, 310.0), searched("b", 600.0, 620.0), searched("c", 900.0, None)
    (row,) = [each for each in compare(runs) if each["field"] == "max_rate_rps"]
    assert (row["b ratio"], row["c ratio"]) == (2.0, None)
    (row,) = [each for each in compare(runs[::-1]) if each["field"] == "max_rate_rps"]
    assert (row["a ratio"], row["b ratio"]) == (None, None)
