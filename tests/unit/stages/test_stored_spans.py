"""A disk that has no room for spans takes no run with it that was measured; the store is made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.perfdb.values import Attachment
from inferbench_tasks.stages.stored_spans import stored_spans
from inferbench_tasks.stages.trace import Output
from inferbench_tasks.tracing.missing import missing_in_words
from inferbench_tasks.tracing.queries import spans_file
from tests.unit.perfdb.builders import result

SPANS, SAMPLES = 1_000, 5_000


class Store:
    """A PerfDB with so much room."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.files = self
        self.stored: list[str] = []

    def require_room(self, size_bytes: int) -> None:
        """As PerfDB's own."""
        if size_bytes > self.free:
            raise StorageError("No space in PerfDB.")

    def put(self, source: Path, name: str, **about: Any) -> Attachment:
        """What it keeps."""
        self.require_room(source.stat().st_size)
        self.stored.append(name)
        return Attachment(id="1" * 24, name=name, sha256="0" * 64, bytes=source.stat().st_size)


@pytest.fixture
def traced(tmp_path: Path) -> Output:
    """A trace with its spans, and samples beside them."""
    (tmp_path / "spans.parquet").write_bytes(bytes(SPANS))
    (tmp_path / "samples.parquet").write_bytes(bytes(SAMPLES))
    return Output(document={"levels": ["application"]}, spans_path=str(tmp_path / "spans.parquet"))


def kept(
    store: Store, traced: Output, tmp_path: Path, needed: bool = False, loaded: bool = True
) -> dict[str, Any]:
    """What the result has."""
    samples = tmp_path / "samples.parquet" if loaded else None
    return stored_spans(cast(Any, store), traced, "run", 1, samples=samples, needed=needed)


def test_spans_are_stored_where_there_is_room_for_all(traced: Output, tmp_path: Path) -> None:
    """With the samples, which come behind them."""
    store = Store(SPANS + SAMPLES)
    assert kept(store, traced, tmp_path)["file"]["bytes"] == SPANS and store.stored == ["spans.parquet"]
    assert kept(store, Output(document={"problem": "x"}), tmp_path) == {"problem": "x"}


@pytest.mark.parametrize("free", [SPANS - 1, SPANS + SAMPLES - 1])
def test_spans_without_room_are_left_out_and_the_run_stands(
    free: int, traced: Output, tmp_path: Path
) -> None:
    """Neither where they don't fit, nor where they would take the room of the samples; and why is said to whoever asks
    for them."""
    store = Store(free)
    trace = kept(store, traced, tmp_path)
    assert trace == {"levels": ["application"], "unstored": "No space in PerfDB."} and store.stored == []
    assert missing_in_words(trace) == "Its spans were not stored: No space in PerfDB."
    with pytest.raises(InputError, match="the spans of run were not stored: No space in PerfDB."):
        spans_file(result("run", extensions={"trace": trace}))


def test_of_a_job_that_asks_for_nothing_else_they_are_all_there_is(traced: Output, tmp_path: Path) -> None:
    """Without room it fails, as without a trace."""
    with pytest.raises(StorageError, match="No space"):
        kept(Store(SPANS - 1), traced, tmp_path, needed=True, loaded=False)
    assert "file" in kept(Store(SPANS), traced, tmp_path, needed=True, loaded=False)
