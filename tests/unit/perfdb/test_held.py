"""What is held of the results, by a FAKE collection: which ones are runs of one configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.fields import Field
from inferbench_tasks.perfdb.held import Held, configuration
from inferbench_tasks.perfdb.indexes import held_indexes, held_paths
from tests.unit.perfdb.builders import result


class FakeCollection:
    """FAKE: answers the two readings of ``Held`` by their index, and tells of one result that is written later."""

    alive = True

    def __init__(self, documents: list[ResultDocument], later: ResultDocument) -> None:
        self.documents = [document.model_dump() for document in documents]
        self.later: list[dict[str, Any]] = [{"operationType": "insert", "fullDocument": later.model_dump()}]

    def aggregate(
        self, pipeline: list[dict[str, Any]], hint: str, batchSize: int
    ) -> Iterator[dict[str, Any]]:
        """The fields that an index has."""
        for document in self.documents:
            yield {"row": [Field("", path, "any", "").value(document) for path in held_indexes()[hint]]}

    def watch(
        self, pipeline: list[dict[str, Any]], full_document: str, max_await_time_ms: int
    ) -> FakeCollection:
        """Itself."""
        assert pipeline[0]["$project"]["fullDocument.device.cores"] == 1
        return self

    def try_next(self) -> dict[str, Any] | None:
        """The next change."""
        return self.later.pop() if self.later else None


class FakeDb:
    """FAKE: a PerfDB with that collection."""

    def __init__(self, results: FakeCollection) -> None:
        self.results = results

    def collection(self, name: str) -> FakeCollection:
        """The only one."""
        return self.results

    def retrying(self, action: Callable[[], None], what: str) -> None:
        """Once is enough."""
        action()


def on(run_id: str, cores: float | None) -> ResultDocument:
    """The same job on so many cores."""
    return result(run_id, device={"kind": "cpu", "name": "Example CPU", "cores": cores})


def test_runs_between_different_hosts_are_different_configurations() -> None:
    """Their job says of none which they are to be. Within a host the digest tells all; what earlier versions called by
    the client's host alone stays by itself."""

    def over(run_id: str, network: str | None) -> ResultDocument:
        load = {"arrivals": {"kind": "poisson"}, "network": network}
        return result(run_id, load=load)

    near, far, before = (f"between hosts from c{server}" for server in (" to a", " to b", ""))
    written = [over("near-1", near), over("far", far), over("before", before), over("lan", "lan")]
    db = FakeDb(FakeCollection([*written, over("none", None)], later=over("near-2", near)))
    held = Held(db)  # type: ignore[arg-type]
    held.rows()
    groups: dict[str, set[str]] = {}
    for row in held.rows():
        groups.setdefault(configuration(row), set()).add(row[held_paths().index("run_id")])
    assert sorted(map(sorted, groups.values())) == [
        ["before"],
        ["far"],
        ["lan", "none"],
        ["near-1", "near-2"],
    ]


def test_runs_on_different_numbers_of_cores_are_different_configurations() -> None:
    """Read at the start or told of later: only those with as many cores are one; results that don't tell stay apart."""
    written = [on("old-1", None), on("old-2", None), on("three-1", 3), on("sixteen", 16)]
    db = FakeDb(FakeCollection(written, later=on("three-2", 3)))
    held = Held(db)  # type: ignore[arg-type]
    held.rows()
    groups: dict[str, set[str]] = {}
    for row in held.rows():
        groups.setdefault(configuration(row), set()).add(row[held_paths().index("run_id")])
    assert sorted(map(sorted, groups.values())) == [["old-1", "old-2"], ["sixteen"], ["three-1", "three-2"]]
    assert all(key.startswith("ab" * 32 + " ") for key in groups)
