"""What is kept of bricks, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from inferbench_tasks.bricks.results import WHOLE, Results
from inferbench_tasks.errors import InputError
from tests.unit.bricks.builders import SETTING, result


def test_results_are_of_one_setting(tmp_path: Path) -> None:
    """Another number of threads, another version of the runtime or of the method finds nothing."""
    Results(tmp_path, SETTING).put(result("ab", 1, 2, 3))
    assert Results(tmp_path, SETTING).get("ab") == result("ab", 1, 2, 3).model_copy(
        update={"measured_at": Results(tmp_path, SETTING).get("ab").measured_at}  # type: ignore[union-attr]
    )
    for change in ({"threads": 2}, {"runtime": "onnxruntime 2"}, {"version": 0}, {"cores": 2}):
        assert Results(tmp_path, SETTING.model_copy(update=change)).get("ab") is None


def test_whole_models_are_apart_from_bricks(tmp_path: Path) -> None:
    """One brick, one model, the base: one whole model."""
    results = Results(tmp_path, SETTING)
    results.put(result("ab", 1, 2, 3))
    results.put(result(WHOLE + "ab", 4, 5, 6, parts={"1": ("ab",)}))
    results.set_base_ns({"x": 1.0})
    results.set_base_ns({"x": 2.0})
    assert [one.identity for one in results.wholes()] == [WHOLE + "ab"]
    assert results.base_ns() == {"x": 1.0}


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    """A time below 0 or a field that is none: the file is named, with what mends it."""
    results = Results(tmp_path, SETTING)
    results.put(result("ab", 1, 2, 3))
    [path] = tmp_path.rglob("ab.json")
    path.write_text(path.read_text().replace("[1.0,2.0,3.0]", "[1.0,-2.0,3.0]"))
    with pytest.raises(InputError, match=r"ab\.json is no result of a brick .*above 0.*remove it"):
        results.get("ab")


@pytest.mark.parametrize("times", [(1.0,), (0.0, 1.0), (1.0, float("nan")), (1.0, float("inf"))])
def test_no_result_has_times_that_are_none(times: tuple[float, ...]) -> None:
    """One round alone, nothing, NaN, infinity."""
    with pytest.raises(ValidationError, match="at least two times above 0"):
        result("ab", *times)
