"""What the pictures of a sweep say of figures that are of unlike things."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.charts.grid import axes_of, fold
from inferbench_tasks.analysis.charts.heatmap import heat_map, heat_maps
from inferbench_tasks.analysis.charts.sweep import comparison
from inferbench_tasks.analysis.charts.tradeoffs import fronts_by_ground, pareto_table
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.figures import FIGURES
from tests.unit.analysis.builders import named, records, view

ENERGY = FIGURES["joule_per_sample"]


def drawn(*methods: str) -> list[RunView]:
    """Four runs of two batch sizes and two numbers of threads, with an energy by each of these methods."""
    views = named(
        *(
            view(
                records(4.0 + batch + threads, batch_size=batch),
                f"r.{batch}{threads}",
                job={"load__batch_size": batch, "serve": {"threads": threads}},
            )
            for batch in (1, 2)
            for threads in (1, 2)
        )
    )
    for place, (run, method) in enumerate(zip(views, methods, strict=True)):
        run.summary["energy"] = {"joule_per_sample": 0.1 + place / 10, "method": method}
    return views


def under_one_load(**of_each: tuple[Any, ...]) -> list[RunView]:
    """Runs that differ in the threads of their servers alone, and in what their summaries are given."""
    count = len(next(iter(of_each.values())))
    views = named(
        *(view(records(5.0), f"r.{place}", job={"serve": {"threads": place + 1}}) for place in range(count))
    )
    for place, run in enumerate(views):
        run.summary.update({name: values[place] for name, values in of_each.items()})
    return views


def energies(*joules: float, method: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"joule_per_sample": joule, "method": name} for joule, name in zip(joules, method, strict=True)
    )


UNLIKE = ("rapl", "tdp_estimate", "rapl", "rapl")


def test_energies_of_two_methods_have_a_picture_each() -> None:
    """0.1, 0.3 and 0.4 J by a counter of the whole processor, 0.2 J by an estimate of a server's share: bars and maps
    of each, in which the others have no place. Of one method, and of other figures, there is one of all.
    """
    unlike = drawn("rapl", "tdp_estimate", "rapl", "rapl")
    by_rapl, by_tdp = (f"Energy (energy by {method})" for method in ("rapl", "tdp_estimate"))
    lengths = {
        plot["layout"]["title"]["text"]: [round(length, 6) for length in plot["data"][0]["x"]]
        for plot in comparison(unlike)
        if plot["layout"]["title"]["text"].startswith("Energy")
    }
    assert lengths == {by_rapl: [0.1, 0.3, 0.4], by_tdp: [0.2]}
    across, down = fold(axes_of(unlike))
    for way, known in (("rapl", [0.1, 0.3, 0.4]), ("tdp_estimate", [0.2])):
        heat = heat_map(unlike, across, down, ENERGY, f"energy by {way}")
        assert heat is not None and heat["layout"]["title"]["text"] == f"Energy (energy by {way})"
        cells = [cell for line in heat["data"][0]["z"] for cell in line if cell is not None]
        assert sorted(round(cell, 6) for cell in cells) == known
    same = drawn("rapl", "rapl", "rapl", "rapl")
    titles = [plot["layout"]["title"]["text"] for plot in comparison(same)]
    assert [title for title in titles if title.startswith("Energy")] == ["Energy"]
    throughput = FIGURES["throughput_samples_per_s"].title
    assert [plot["layout"]["title"]["text"] for plot in comparison(unlike)].count(throughput) == 1


def test_a_grid_has_a_map_for_each_method() -> None:
    """24 runs, of which every third has its energy by an estimate: two maps of energy, and one of whatever else."""
    views = named(
        *(
            view(
                records(4.0 + batch + threads / 8, batch_size=batch, rate_rps=20),
                f"r.{batch}{threads}",
                job={"load__batch_size": batch, "serve": {"threads": threads}},
            )
            for batch in (1, 2, 4)
            for threads in range(1, 9)
        )
    )
    for place, run in enumerate(views):
        method = "rapl" if place % 3 else "tdp_estimate"
        run.summary["energy"] = {"joule_per_sample": 0.1, "method": method}
    titles = [heat["layout"]["title"]["text"] for heat in heat_maps(views)]
    assert [title for title in titles if title.startswith("Energy")] == [
        "Energy (energy by rapl)", "Energy (energy by tdp_estimate)",
    ]  # fmt: skip
    assert len(titles) == len(set(titles))


def test_an_estimate_of_a_share_puts_no_counter_of_the_whole_off_the_front() -> None:
    """Runs at 2, 3 and 4 J a sample by RAPL, and one at 0.1 J by the estimate of its server's share, which would beat
    them all. By RAPL 2 J stays, and 3 and 4, half as much again and more, go; the estimate is alone on a front of its
    own. If all are by RAPL, 0.1 J is alone on the one front that there is.
    """
    joules = 2.0, 0.1, 3.0, 4.0
    values = [(joule,) for joule in joules]
    unlike = under_one_load(energy=energies(*joules, method=UNLIKE))
    fronts = fronts_by_ground(unlike, values, [ENERGY])
    assert {ground.method: indexes for ground, indexes in fronts.items()} == {
        "energy by rapl": {0}, "energy by tdp_estimate": {1},
    }  # fmt: skip
    same = under_one_load(energy=energies(*joules, method=("rapl",) * 4))
    assert [*fronts_by_ground(same, values, [ENERGY]).values()] == [{1}]


def test_the_table_of_the_front_names_the_methods_only_where_there_are_two() -> None:
    """Of runs that are equal but for their energy: each method's least has a row that says which method it is of."""
    joules = 2.0, 0.1, 3.0, 4.0
    (table,) = pareto_table(under_one_load(energy=energies(*joules, method=UNLIKE)))
    assert table["title"].endswith("at once, by energies of the same method")
    assert table["head"][:2] == ["run", "method"] and table["numbers"][0] == 2
    assert [row[:2] for row in table["rows"]] == [
        ["threads 1", "energy by rapl"], ["threads 2", "energy by tdp_estimate"],
    ]  # fmt: skip
    (table,) = pareto_table(under_one_load(energy=energies(*joules, method=("rapl",) * 4)))
    assert "method" not in table["head"] and "method" not in table["title"]
    assert [row[0] for row in table["rows"]] == ["threads 2"]


def test_costs_of_two_price_lists_have_a_front_each() -> None:
    """0.5 USD by a list of June beats the 0.9 of that list, and not the 1 USD of January's, which beats its 2."""
    dates = "2026-01-01", "2026-06-01", "2026-01-01", "2026-06-01"
    usd = 1.0, 0.5, 2.0, 0.9
    views = under_one_load(
        cost=tuple({"instances": [{"date": date}]} for date in dates), cost_usd_per_1k_samples=usd
    )
    fronts = fronts_by_ground(views, [(each,) for each in usd], [FIGURES["cost_usd_per_1k_samples"]])
    assert {ground.prices: indexes for ground, indexes in fronts.items()} == {
        "prices of 2026-01-01": {0}, "prices of 2026-06-01": {1},
    }  # fmt: skip
