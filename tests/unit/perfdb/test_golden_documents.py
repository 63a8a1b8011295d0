"""Documents that the version before the restructuring stored stay readable, with the values and verdicts of then.

``expected.json`` has the names of then. A figure that has another name by now is looked up by its old one:
whoever has queries, scripts or stored objectives need not change them.
"""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.candidates import value_of
from inferbench_tasks.contracts.verdict import reasons_of
from inferbench_tasks.perfdb import fields
from inferbench_tasks.perfdb.comparison import compare
from inferbench_tasks.perfdb.held import configuration_of
from inferbench_tasks.perfdb.queries import matches, parse
from inferbench_tasks.stages.neighbours import reasons as reasons_of_neighbours
from inferbench_tasks.submission.digest import job_digest
from tests.unit.perfdb.golden import expected, results, stored

RESULTS = expected()["results"]
KEYS = sorted(RESULTS)
PAIR = [key for key in KEYS if key.startswith("golden-open-20261122T105156")]


@pytest.mark.parametrize("key", KEYS)
def test_every_field_has_its_value_under_its_old_name(key: str) -> None:
    """What was stored is found, and what was not is still None; the verdict stands apart."""
    document = results()[key].model_dump()
    for name in {*expected()["names"].values()} - {"verdict"}:
        value = fields.field(name).value(document)
        known = value.isoformat() if name == "created" else value
        assert known == RESULTS[key]["row"].get(name), name


def test_every_old_name_and_alias_is_known() -> None:
    """An alias leads to the same field as the name that it was one of."""
    for alias, name in expected()["names"].items():
        assert fields.field(alias) == fields.field(name)


@pytest.mark.parametrize("key", KEYS)
def test_every_objective_and_watched_figure_has_its_value(key: str) -> None:
    """Those that are no field: what a recommendation could be asked for, and what a night watches."""
    document = results()[key].model_dump()
    figures = {*expected()["figures"]}
    for name in {*expected()["objectives"]} - figures:
        assert value_of(document, name) == RESULTS[key]["objectives"].get(name), name
    for name, path in expected()["watched"].items():
        value = fields.Field(name, path, "number", "").value(document)
        assert value == RESULTS[key]["watched"].get(name), name


@pytest.mark.parametrize("key", KEYS)
def test_the_verdict_is_the_same(key: str) -> None:
    """Its text, whether the figures count, and whether the run is repeated for what disturbed it."""
    result, then = results()[key], RESULTS[key]
    assert str(result.verdict) == then["verdict"]
    assert result.valid == then["valid"] == (then["kind"] == "valid")
    assert result.verdict.kind == then["kind"]
    assert result.verdict.disturbed == then["quarantined"]


@pytest.mark.parametrize("key", [key for key in KEYS if RESULTS[key]["kind"] == "invalid"])
def test_an_invalid_verdict_names_all_reasons(key: str) -> None:
    """Those of the load, its certificate, the neighbours and the machine; a reason may have a semicolon of its own."""
    result, then = results()[key], RESULTS[key]
    assert str(result.verdict) == f"invalid: {'; '.join(then['reasons'])}"
    assert [reason.text for reason in result.verdict.reasons] == then["reasons"]
    neighbours = (result.extensions.get("sharing") or {}).get("neighbours", [])
    known = [*reasons_of(result.certificate), *reasons_of_neighbours(neighbours)]
    assert [reason for reason in result.verdict.reasons if reason in known] == known
    assert all(reason.check for reason in result.verdict.reasons)


@pytest.mark.parametrize("key", [key for key in KEYS if RESULTS[key]["kind"] in ("failed", "cancelled")])
def test_a_failed_or_cancelled_verdict_names_its_stage(key: str) -> None:
    """And the cause of a failure, in which anything may stand; ``scheduler`` counts as a stage here."""
    verdict, then = results()[key].verdict, RESULTS[key]
    cause = f", {then['cause']}" if then["kind"] == "failed" else ""
    assert str(verdict) == f"{then['kind']}: {then['stage']}{cause}"
    (reason,) = verdict.reasons
    assert (reason.stage, reason.text) == (then["stage"], then["cause"] or "")


@pytest.mark.parametrize("kind", ["valid", "invalid", "failed", "cancelled"])
def test_a_query_for_a_verdict_finds_those_of_that_kind(kind: str) -> None:
    """``verdict=invalid`` selects by what is stored."""
    where = parse(f"verdict={kind}").filter
    selected = {f"{d['run_id']}#{d['attempt']}" for d in stored("results") if matches(where, d)}
    assert selected == {key for key in KEYS if RESULTS[key]["kind"] == kind}


def test_a_configuration_has_the_same_key() -> None:
    """Old and new runs of a job on a device are runs of one configuration."""
    for key, result in results().items():
        device = result.device
        now = configuration_of(result.submission.digest, result.run_id, device.name, device.cores)
        assert now == RESULTS[key]["configuration"]


def test_a_comparison_has_the_same_values_and_ratios() -> None:
    """Every figure and setting of two results, a field under whichever name."""
    rows = {row.pop("field"): row for row in compare([results()[key] for key in PAIR])}
    for row in expected()["compare"]:
        then = {name: value for name, value in row.items() if name != "field"}
        assert rows[_name_today(row["field"])] == then, row["field"]
    assert len(rows) >= len(expected()["compare"])


@pytest.mark.parametrize("key", [key for key in KEYS if RESULTS[key]["job"]])
def test_a_stored_job_is_still_the_same_job(key: str) -> None:
    """Read again for a replay, it has the digest by which its history goes on."""
    from inferbench_tasks.pipelines.replay import submission_of
    from inferbench_tasks.submission.sweep import expand

    (job,) = expand(submission_of(results()[key]))
    assert job.digest == job_digest(job.spec) == RESULTS[key]["job"]["digest"]
    if not key.startswith("made-"):
        assert job.job_id == results()[key].job_id


def _name_today(name: str) -> str:
    """A setting's path is its name, a field may have a new one."""
    return fields.field(name).name if name in expected()["names"] else name


def _kinds() -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    for then in RESULTS.values():
        kinds.setdefault(then["kind"], set()).add(then["stage"])
    return kinds


def test_all_kinds_of_verdicts_are_there() -> None:
    """Each stage failed and was cancelled once, the scheduler ended runs, and each part of a reason occurs."""
    stages = {"generate", "convert", "serve", "load", "collect", "release"}
    kinds = _kinds()
    assert kinds["failed"] == {*stages, "scheduler"}
    assert kinds["cancelled"] == stages
    reasons = " ".join(reason for then in RESULTS.values() for reason in then.get("reasons", []))
    for part in (
        "the load ended early",
        "interference: the hypervisor",
        "interference: the GPU",
        "the neighbour",
    ):
        assert part in reasons
