"""Sweeps: how many jobs, in which order, with which ids, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.fields import all_paths
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import JobSpec, Submission
from inferbench_tasks.submission.sweep import Job, count_jobs, each_job_once, expand

BASE: dict[str, Any] = {
    "name": "sweep",
    "model": {"kind": "zoo", "name": "digits"},
    "load": {"arrivals": {"kind": "poisson", "rate_rps": 50}},
}
TEXT = """\
name: sweep
model: {kind: zoo, name: digits}
load:
  arrivals: {kind: poisson, rate_rps: 50}
  timeout_ms: 100
sweep:
"""


def jobs(sweep: Any, **more: Any) -> list[Job[JobSpec]]:
    return expand(Submission.model_validate({**BASE, **more, "sweep": sweep}), INSTALLED)


def problems(sweep: str) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(TEXT + sweep, "x.yaml", INSTALLED)
    return [str(problem) for problem in caught.value.problems]


def test_without_a_sweep_there_is_one_job() -> None:
    """Its spec says what the submission says."""
    empty: dict[str, Any] = {}
    for sweep in (None, empty):
        (job,) = jobs(sweep, user="team")
        assert (job.index, job.point) == (0, {})
        assert job.spec == JobSpec.model_validate({**BASE, "user": "team"})


def test_a_grid_is_every_combination_the_last_key_fastest() -> None:
    """In the order in which keys and values stand."""
    made = jobs({"serve.threads": [1, 2], "load.seed": [7, 8, 9]})
    assert [(j.point["serve.threads"], j.point["load.seed"]) for j in made] == [
        (1, 7), (1, 8), (1, 9), (2, 7), (2, 8), (2, 9),
    ]  # fmt: skip
    assert [j.index for j in made] == list(range(6))
    assert [(j.spec.serve.threads, j.spec.traffic.seed) for j in made] == [
        (j.point["serve.threads"], j.point["load.seed"]) for j in made
    ]


def test_a_zip_goes_row_by_row_and_combines_with_the_grid() -> None:
    """One group as a mapping or in a list; several groups combine with each other."""
    rows = {"load.batch_size": [1, 8], "load.arrivals.rate_rps": [200, 25]}
    for group in (rows, [rows]):
        made = jobs({"serve.threads": [1, 2], "zip": group})
        assert [tuple(j.point.values()) for j in made] == [(1, 1, 200), (1, 8, 25), (2, 1, 200), (2, 8, 25)]
    made = jobs({"zip": [rows, {"load.seed": [1, 2, 3]}]})
    assert len(made) == 6


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["serve.threads", "serve.instances", "load.seed", "load.duration_s"]),
        st.lists(st.integers(5, 200), min_size=1, max_size=4, unique=True),
    ),
    st.lists(st.integers(5, 200), max_size=4, unique=True),
)
def test_the_number_of_jobs_is_the_product_and_no_id_repeats(
    grid: dict[str, list[int]], zipped: list[int]
) -> None:
    """Counting needs no expansion."""
    group = {"load.batch_size": [v % 4 + 1 for v in zipped], "load.max_requests": zipped}
    sweep = {**grid, **({"zip": group} if zipped else {})}
    submission = Submission.model_validate({**BASE, "sweep": sweep})
    made = expand(submission)
    assert (
        len(made) == count_jobs(submission.sweep) == math.prod(map(len, grid.values())) * max(1, len(zipped))
    )
    assert len({job.job_id for job in made}) == len(made)


def test_an_id_is_the_name_and_the_digest_of_what_is_asked() -> None:
    """It stays when the sweep around it changes, when base values are swept instead, and on reading again."""
    (small,) = jobs({"serve.threads": [2]})
    larger = {
        j.point["serve.threads"]: j.job_id for j in jobs({"load.seed": [1], "serve.threads": [4, 2, 1]})
    }
    (plain,) = jobs(None, serve={"threads": 2})
    assert small.job_id == larger[2] == plain.job_id
    assert small.job_id == f"sweep-{job_digest(small.spec)[:12]}"
    assert small.digest == job_digest(small.spec)


def test_a_submission_that_went_through_json_expands_the_same() -> None:
    """All defaults are spelled out then, which changes nothing."""
    submission = Submission.model_validate(
        {**BASE, "model": {"kind": "canonical", "family": "mlp"}, "sweep": {"model.family": ["mlp", "rnn"]}}
    )
    again = Submission.model_validate_json(submission.model_dump_json())
    assert [j.job_id for j in expand(again)] == [j.job_id for j in expand(submission)]


def test_whole_sections_can_be_swept_and_absent_ones_begun() -> None:
    """A mapping replaces a section; a path into an absent section begins it; null takes it away."""
    arrivals = [{"kind": "poisson", "rate_rps": 5}, {"kind": "closed_loop", "concurrency": 4}]
    made = jobs({"load.arrivals": arrivals, "slo.p99_ms": [10]})
    assert [j.spec.traffic.arrivals.kind for j in made] == ["poisson", "closed_loop"]
    assert [j.spec.slo.bound("p99_ms") for j in made if j.spec.slo] == [10, 10]
    made = jobs({"serve.batching": [None, {"max_batch_size": 4}]})
    assert [j.spec.serve.batching.max_batch_size if j.spec.serve.batching else None for j in made] == [
        None,
        4,
    ]


def test_every_measured_path_is_known_and_no_label() -> None:
    """What can be swept is what the schema has, over all kinds."""
    paths = all_paths(Submission)
    assert {
        "serve.threads",
        "serve.batching.max_batch_size",
        "load.arrivals.rate_rps",
        "model.heads",
    } <= paths
    assert {"load.arrivals.concurrency", "slo.p99_ms", "model.training.epochs"} <= paths
    assert not [path for path in paths if path.startswith("sweep")]


@pytest.mark.parametrize(
    "label", ["name", "user", "description", "tags", "priority", "deadline_s", "sweep", "name.x"]
)
def test_what_measures_nothing_can_not_be_swept(label: str) -> None:
    """Labels and scheduling."""
    (message,) = problems(f"  {label}: [a]\n")
    assert "can't be swept" in message
    assert message.startswith("x.yaml:7: sweep.")


def test_a_wrong_value_is_told_where_it_stands() -> None:
    """At the line of the item, once, however many jobs it is part of."""
    assert problems("  load.seed: [1, 2, 3]\n  serve.threads:\n  - 1\n  - 0\n") == [
        "x.yaml:10: sweep.serve.threads[1]: serve.threads: must be a whole number from 1 to 1,024; got 0"
    ]


def test_a_value_inside_a_swept_mapping_is_told_where_it_stands() -> None:
    """Down to the key of the item."""
    found = problems(
        "  serve.batching:\n  - max_batch_size: 4\n  - max_batch_size: 4\n    max_delay_ms: -1\n"
    )
    assert found == [
        "x.yaml:10: sweep.serve.batching[1].max_delay_ms: serve.batching.max_delay_ms: "
        "must be a number from 0 to 10,000; got -1"
    ]


def test_an_impossible_combination_names_its_first_job() -> None:
    """A combination of two swept values is told at the sweep, with the point."""
    (message,) = problems("  load.batch_size: [1, 16]\n  serve.batching.max_batch_size: [8, 16]\n")
    assert message.startswith("x.yaml:6: sweep: load.batch_size: 16 samples per request are more than")
    assert message.endswith("(job 3: load.batch_size=16, serve.batching.max_batch_size=8)")


def test_a_combination_with_a_fixed_value_is_told_at_the_swept_one() -> None:
    """The fixed value may be right."""
    (message,) = problems("  load.seed: [1, 2]\n  serve.batching.max_delay_ms: [1, 200]\n")
    assert message.startswith(
        "x.yaml:8: sweep.serve.batching.max_delay_ms: serve.batching.max_delay_ms: a request may wait 200 ms"
    )


def test_what_is_wrong_without_the_sweep_is_told_without_it() -> None:
    """Once, at its own line."""
    with pytest.raises(SubmissionError) as caught:
        read_submission_text(TEXT.replace("timeout_ms: 100", "network: pigeon\n  timeout_ms: 100")
                             + "  load.seed: [1, 2]\nslo: {p99_ms: 500}\n", "x.yaml", INSTALLED)  # fmt: skip
    assert any(
        str(p).startswith("x.yaml:9: slo.p99_ms: 500 can never be exceeded") for p in caught.value.problems
    )
    assert not any("job" in p.message for p in caught.value.problems)


def test_a_base_that_the_sweep_repairs_is_fine() -> None:
    """Only the jobs have to be possible."""
    made = jobs(
        {"serve.batching.max_batch_size": [16, 32]},
        load={**BASE["load"], "batch_size": 16},
        serve={"batching": {"max_batch_size": 4}},
    )
    assert len(made) == 2


def test_points_that_come_to_the_same_are_refused() -> None:
    """An absent section and its defaults are one measurement."""
    (message,) = problems("  serve.batching: [{}, {max_batch_size: 8}]\n")
    assert message.startswith("x.yaml:6: sweep: jobs 1 and 2 of the sweep are the same")


def test_true_is_not_one() -> None:
    """A switch and a number are different values, and 1 and 1.0 are one."""
    assert "repeats an earlier value" in problems("  load.duration_s: [1, 1.0]\n")[0]
    assert "repeats" not in " ".join(problems("  load.duration_s: [1, true]\n"))


def test_a_sweep_that_multiplies_beyond_the_limit_is_refused_before_it_is_made() -> None:
    """Four lists of a thousand values would be 10^12 jobs."""
    values = list(range(1, 1001))
    with pytest.raises(
        SubmissionError, match=r"submission sweep: sweep: makes 1,000,000,000,000 jobs; at most 10,000"
    ):
        jobs(
            {
                "load.seed": values,
                "serve.threads": values,
                "load.max_requests": values,
                "requests.samples": values,
            }
        )


def test_a_zips_columns_may_repeat_a_value_and_its_rows_may_not() -> None:
    """Two backends of one format stand side by side; the same row twice is one measurement."""
    text = "  zip:\n    serve.backend: [onnxruntime, triton{}]\n    convert.format: [onnx, onnx{}]\n"
    read_submission_text(TEXT + text.format("", ""), "x.yaml", INSTALLED)
    (message,) = problems(text.format(", triton", ", onnx"))
    assert 'row 3 repeats an earlier one, ["triton", "onnx"]' in message


def test_an_interleaved_sweep_measures_every_point_in_each_block_every_second_one_backwards() -> None:
    """A B, B A, A B, B A: a job a run, each with its block; the id is the configuration's."""
    made = jobs({"serve.threads": [1, 2], "order": "interleaved", "blocks": 4})
    assert [(j.index, j.spec.block, j.spec.serve.threads) for j in made] == [
        (0, 1, 1), (1, 1, 2), (2, 2, 2), (3, 2, 1), (4, 3, 1), (5, 3, 2), (6, 4, 2), (7, 4, 1),
    ]  # fmt: skip
    listed = jobs({"serve.threads": [1, 2]})
    assert {j.job_id for j in made} == {j.job_id for j in listed}
    assert [j.spec.block for j in listed] == [None, None]


def test_an_interleaved_sweep_has_eight_blocks_unless_it_says_how_many() -> None:
    """And it reads the same from what was stored of it."""
    submission = Submission.model_validate(
        {**BASE, "sweep": {"serve.threads": [1, 2], "order": "interleaved"}}
    )
    assert len(expand(submission)) == count_jobs(submission.sweep) == 16
    again = Submission.model_validate_json(submission.model_dump_json())
    assert [j.spec for j in expand(again)] == [j.spec for j in expand(submission)]


@pytest.mark.parametrize(
    ("sweep", "line", "message"),
    [
        (
            "  serve.threads: [1, 2]\n  order: random\n",
            8,
            "sweep.order: must be listed or interleaved; got 'random'",
        ),
        (
            "  serve.threads: [1, 2]\n  order: interleaved\n  blocks: 5\n",
            9,
            "sweep.blocks: must be an even number from 4 to 200; got 5",
        ),
        (
            "  serve.threads: [1, 2]\n  order: interleaved\n  blocks: two\n",
            9,
            "sweep.blocks: must be an even number from 4 to 200; got 'two'",
        ),
        ("  serve.threads: [1, 2]\n  blocks: 4\n", 6, "sweep: blocks go with order: interleaved only"),
        (
            "  serve.threads: [1]\n  order: interleaved\n",
            8,
            "sweep.order: interleaved compares points in turns",
        ),
    ],
)
def test_an_order_that_makes_no_pairs_is_refused_with_its_line(sweep: str, line: int, message: str) -> None:
    """What is wrong, where, and what is allowed."""
    (problem,) = problems(sweep)
    assert problem.startswith(f"x.yaml:{line}: {message}")


def test_what_has_an_order_of_its_own_takes_no_interleaved_sweep() -> None:
    """Nights, bisections and searches measure each job once in each of their own turns."""
    interleaved = Submission.model_validate(
        {**BASE, "sweep": {"serve.threads": [1, 2], "order": "interleaved"}}
    )
    with pytest.raises(InputError, match="A night measures the jobs of a sweep in an order of its own"):
        each_job_once(interleaved, "A night")
    listed = Submission.model_validate({**BASE, "sweep": {"serve.threads": [1, 2]}})
    assert each_job_once(listed, "A night") is listed
