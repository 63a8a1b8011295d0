"""The page of the paper's figures: each sentence with its finding, none left out."""

from __future__ import annotations

import html
from pathlib import Path

from inferbench_tasks.analysis.devices.costs import offers
from inferbench_tasks.analysis.paper.claims import CLAIMS
from inferbench_tasks.analysis.paper.compose import _costs, findings, in_words, make_page
from inferbench_tasks.analysis.paper.evidence import Evidence
from tests.report_page import charts_of
from tests.unit.analysis.builders import named, records, view
from tests.unit.analysis.devices.builders import CPU, T4, run


def test_the_page_has_every_sentence_and_says_what_is_missing(tmp_path: Path) -> None:
    """One submission was run, one of its two runs failed: all sentences stand there, and that loss in front of them."""
    runs = named(
        view(records(5.0), "inv.000", job={"load__arrivals": {"kind": "poisson", "rate_rps": 100.0}}),
        view(
            None,
            "inv.001",
            "failed: load: died",
            job={"load__arrivals": {"kind": "poisson", "rate_rps": 400.0}},
        ),
    )
    path = tmp_path / "paper.html"
    words = make_page(path, {"fig11-13-tail-latency": runs}, {"fig11-13-tail-latency": "/data/report.html"})
    text = html.unescape(path.read_text())
    assert words == f"Of {len(CLAIMS)} sentences of the paper: {len(CLAIMS)} not measured here."
    assert words in text
    assert "1 of 2 runs are not valid" in text
    assert all(claim.paper.split("(")[0].strip() in text for claim in CLAIMS)
    assert "1 of 2 runs valid" in text
    assert charts_of(text)
    assert "/data/report.html" in text
    assert 'data-how="It is made of the runs of the submissions named here' in text, "of no report's runs"


def test_runs_that_do_not_count_are_in_no_picture_and_are_counted(tmp_path: Path) -> None:
    """Of two valid runs and one that the machine disturbed two bars are drawn, none hatched; the third is told of."""
    rates = (100.0, 200.0, 400.0)
    verdicts = ("valid", "valid", "disturbed: the hypervisor took 20%")
    runs = named(
        *(
            view(
                records(5.0),
                f"inv.00{at}",
                verdict,
                job={"load__arrivals": {"kind": "poisson", "rate_rps": rate}},
            )
            for at, (rate, verdict) in enumerate(zip(rates, verdicts, strict=True))
        )
    )
    name = next(claim.submissions[0] for claim in CLAIMS if claim.figure.startswith("12"))
    path = tmp_path / "paper.html"
    make_page(path, {name: runs}, {name: None})
    text = html.unescape(path.read_text())
    bars = [chart for chart in charts_of(text).values() if chart["data"][0]["type"] == "bar"]
    assert bars and all(
        len(chart["data"][0]["x"]) == 2 for chart in bars if "Throughput" in str(chart["layout"])
    )
    assert not any("not valid" in str(chart["layout"]["title"]) for chart in charts_of(text).values())
    assert f"Not drawn, for they are not valid: 1 of the 3 measured runs of {name}." in text


def test_the_sentence_counts_each_kind() -> None:
    """With nothing run every sentence is not measured; the counts add up to all."""
    found = findings({})
    assert len(found) == len(CLAIMS)
    assert in_words(found) == f"Of {len(CLAIMS)} sentences of the paper: {len(CLAIMS)} not measured here."


def test_of_many_costs_those_of_the_most_instances_are_drawn_and_the_rest_is_counted() -> None:
    """A CPU has one instance, which is no comparison; of six loads on a T4 with two each four are drawn, two told."""
    documents = [run("cpu", CPU, 5.0, 100.0, batch=99)]
    documents += [run(f"t4-{users}", T4, 5.0, 100.0, users=users) for users in (1, 2, 4, 8, 16, 32)]
    drawn, left_out = _costs(Evidence(offers=offers(documents)))
    assert len(drawn) == 4 and "; 2 more: inferbench costs" in left_out
    drawn, left_out = _costs(Evidence(offers=offers(documents[:3])))
    assert len(drawn) == 2 and left_out == ""
