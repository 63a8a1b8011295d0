"""When what is kept beside runs and results was kept: by PerfDB's clock, whatever the clock of its host says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.manifests import store as manifests
from inferbench_tasks.modelrepo import repository as models
from inferbench_tasks.perfdb import moments
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.tracing import stored as traces
from inferbench_tasks.training.diagnosis import verified
from inferbench_tasks.training.imported import store as trainings
from inferbench_tasks.training.imported.rows import Import, TableRow
from tests.integration.test_manifests import scenario
from tests.integration.test_model_repository import artifact, onnx_file
from tests.integration.test_traces_imported import import_one, seed_run

pytestmark = pytest.mark.integration
DAY = timedelta(days=1)


class Server:
    """The time of PerfDB's server, years from this host's."""

    def __init__(self) -> None:
        self.time = datetime(2023, 6, 1, tzinfo=UTC)

    def of(self, moment: datetime | None) -> bool:
        """Whether that is now, less what went by until the server could be asked."""
        return moment is not None and timedelta(0) <= self.time - moment.replace(tzinfo=UTC) < timedelta(
            minutes=1
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(moments, "server_ms", lambda database: round(server.time.timestamp() * 1000))
    return server


def only(db: PerfDB, collection: str) -> dict[str, Any]:
    [document] = db.collection(collection).find()
    return dict(to_plain(document))


def test_models_are_registered_changed_and_deleted_by_perfdb_s_clock(
    perfdb: PerfDB, server: Server, tmp_path: Path
) -> None:
    """Each of the three is a moment of its own."""
    repository = models.ModelRepository(perfdb)
    card, _ = repository.register(artifact(onnx_file(tmp_path / "m.onnx")), "m")
    assert server.of(card.created_at) and server.of(card.updated_at)
    server.time += DAY
    changed = repository.update("m", licence="MIT")
    assert changed.created_at == card.created_at and server.of(changed.updated_at)
    server.time += DAY
    repository.delete("m")
    assert server.of(only(perfdb, models.COLLECTION)["deleted_at"])


def test_what_is_imported_or_added_is_dated_by_perfdb_s_clock(
    perfdb: PerfDB, server: Server, tmp_path: Path
) -> None:
    """A trace, a training's table, a manifest, and what a remedy brought, which a second look dates anew."""
    import_one(perfdb, tmp_path)
    row = TableRow(source="t:1", cluster="c", data="d", benchmark="train", device="g", devices=1, workers=0)
    kept = trainings.keep(perfdb, Import(rows=[row]))
    manifests.ManifestStore(perfdb).add(scenario("1.0.0"))
    remedy = verified.Verified(
        run="r", attempt=1, rule="fetch", remedied="s", step_ms=2.0, predicted_ms=1.0, predicted_gain_ms=1.0,
        verdict="valid",
    )  # fmt: skip
    assert server.of(verified.keep(perfdb, remedy).created_at)
    collections = (traces.COLLECTION, trainings.COLLECTION, manifests.COLLECTION, verified.COLLECTION)
    for collection in collections:
        assert server.of(only(perfdb, collection)["created_at"]), collection
    server.time += DAY
    assert trainings.keep(perfdb, Import(rows=[row])) == kept
    again = verified.keep(perfdb, remedy)
    assert verified.of_run(perfdb, "r", 1) == [again] and server.of(again.created_at)


def test_how_old_a_trace_is_goes_by_perfdb_s_clock(perfdb: PerfDB, server: Server, tmp_path: Path) -> None:
    """A trace that was stored eight days ago by it, of a run or imported, is older than seven days and not than nine,
    whatever this host's clock says."""
    seed_run(perfdb, tmp_path, "run")
    imported = import_one(perfdb, tmp_path)
    server.time += 8 * DAY
    assert traces.stored_before(perfdb, 9) == []
    assert sorted(traces.stored_before(perfdb, 7)) == sorted([imported, "run"])
    traces.delete(perfdb, "run")
    assert server.of(only(perfdb, "results")["extensions"]["trace"]["deleted_at"])
