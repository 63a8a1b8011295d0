"""What is no model is ranked apart from models, whatever its name, and said so."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis.recommend.leaderboard import ranked
from inferbench_tasks.analysis.recommend.recommender import choose
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import no_model
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result

P50 = FIGURES["p50_ms"]


def served(run_id: str, p50: float, name: str, backend: str = "llama_cpp", **serve: Any) -> ResultDocument:
    """A run of a language model of that name, or of what stands in for one, whose job had that in ``serve``."""
    return result(
        run_id,
        submission={"name": run_id, "digest": run_id * 8},
        model={"name": name, "task": "text-generation"},
        backend={"kind": backend},
        provenance={"job": {"serve": {"backend": backend, **serve}}},
        summary={
            "e2e_latency_ms": {"p50": p50, "p99": p50},
            "throughput_rps": 1000 / p50,
            "throughput_samples_per_s": 1000 / p50,
        },
    )


def four() -> list[ResultDocument]:
    """The fastest first, as a leaderboard gets them: only the last is a model."""
    return [
        served("faulty", 1.0, "llm-stand-in-with-faults", "llm_stand_in"),
        served("paced", 10.0, "llm-stand-in", "llm_stand_in"),
        served("dummy", 20.0, "qwen-dummy-weights", "vllm", dummy_weights=True),
        served("real", 30.0, "qwen", "vllm", dummy_weights=False),
    ]


def test_each_that_is_no_model_is_first_of_its_own_and_beats_nobody() -> None:
    """Four groups of one; a stand-in is never ahead of a model, and the group's task says what it is."""
    rows = ranked([run.model_dump() for run in four()], P50, ())
    assert {row["run"]: (row["rank"], row["task"]) for row in rows} == {
        "faulty": (1, "text-generation (no model: a stand-in with faults)"),
        "paced": (1, "text-generation (no model: a stand-in)"),
        "dummy": (1, "text-generation (no model: random weights (serve.dummy_weights))"),
        "real": (1, "text-generation"),
    }


@pytest.mark.parametrize("name", ["llm-stand-in", "x-dummy-weights"])
def test_a_name_alone_makes_no_model_of_none(name: str) -> None:
    """Models are named by their owners; results without a job or a version of the block are of models."""
    assert no_model.of_document(served("r", 1.0, name).model_dump()) == ""
    assert no_model.of_document(result(model={"name": name}).model_dump()) == ""


def test_results_at_hand_of_models_and_of_none_are_told() -> None:
    """Whoever puts them together gets an order by the figure, with the word that it says nothing of models."""
    at_hand = [run.model_dump() for run in four()]
    (note,) = [n for n in choose(at_hand, "throughput_samples_per_s", []).notes if "no model is" in n]
    assert "models" in note and "a stand-in with faults" in note
    assert not any("no model" in n for n in choose(at_hand[-1:], "throughput_samples_per_s", []).notes)
