"""The nightly folder as DAGs, and who is told."""

from __future__ import annotations

import json
import shutil
import socketserver
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError

pytestmark = pytest.mark.airflow
ROOT = Path(__file__).parents[3]
CHANGE = {"series": "digits-p50_ms", "change_percent": 12.3, "stage": "preprocess"}


def found(**changes: Any) -> dict[str, Any]:
    return {
        "name": "digits", "file": "/n/digits.yaml", "report": "/r/index.html",
        "regressions": [], "improvements": [], "suspicions": [], **changes,
    }  # fmt: skip


class Left:
    """What a night of bricks uses of a task instance: what is left for the task after it."""

    def __init__(self) -> None:
        self.left: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.left[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return self.left.get(key)


class TaskInstance:
    """What a notifier reads of one: the message that its task left."""

    task_id = "verdict"

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told

    def xcom_pull(self, task_ids: str, key: str) -> dict[str, Any]:
        assert (task_ids, key) == ("verdict", "told")
        return self.told


def context(**changes: Any) -> Any:
    from inferbench_tasks.provider.nightly.operators import message

    return {"ti": TaskInstance(message(found(**changes)))}


def test_every_yaml_of_the_nightly_folder_is_a_scheduled_dag(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One cron for all; low priority and a deadline for the executor; a broken YAML is its own import error."""
    import structlog
    from airflow.dag_processing.dagbag import DagBag
    from airflow.dag_processing.processor import _serialize_dags
    from airflow.sdk import CronTriggerTimetable

    from inferbench_tasks.provider.on_device import LeasedTask

    folder = tmp_path / "nightly"
    shutil.copytree(ROOT / "configs" / "nightly", folder)
    (folder / "broken.yaml").write_text("name: broken\n")
    monkeypatch.setenv("INFERBENCH_NIGHTLY_DIR", str(folder))
    monkeypatch.setenv("INFERBENCH_NIGHTLY_CRON", "30 3 * * *")
    bag = DagBag(
        dag_folder=ROOT / "dags" / "nightly.py", bundle_path=ROOT / "dags", bundle_name="dags-folder"
    )
    serialised, errors = _serialize_dags(bag, structlog.get_logger())
    good = {dag.dag_id for dag in serialised}
    nights = {"nightly.digits-onnxruntime", "nightly.llm-stand-in-night", "nightly.training-digits-night"}
    assert good == nights | {"bricks-nightly"}
    assert any("broken.yaml" in path for path in {**bag.import_errors, **errors})
    dag = bag.dags["nightly.digits-onnxruntime"]
    assert isinstance(dag.schedule, CronTriggerTimetable) and dag.schedule.expression == "30 3 * * *"
    assert dag.catchup is False
    assert dag.is_paused_upon_creation is False, "who sets the cron wants the nights"
    assert {t.task_id for t in dag.tasks} == {
        "job-000.hold", "job-000.measure", "job-000.decide", "job-000.release", "verdict",
    }  # fmt: skip
    told = LeasedTask.of(dag.get_task("job-000.hold").executor_config)
    assert told is not None and told.request is not None and not told.request.recorded
    job = told.request.job
    assert job["priority"] < 0 and job["deadline_s"] > 0
    assert job["expected_duration_s"] >= 2 * 8 * (5 + 1), "all runs of both sides"
    release = dag.get_task("job-000.release")
    assert release.is_teardown and dag.get_task("job-000.hold").is_setup


NIGHT_YAML = """\
name: digits
model: {kind: zoo, name: digits}
load: {arrivals: {kind: poisson, rate_rps: 50}, duration_s: 5}
"""
START = {"figure": "p50_ms", "good": "a" * 40, "bad": "b" * 40}


def test_a_night_that_may_bisect_has_a_dag_of_the_lowest_priority_for_it(tmp_path: Path) -> None:
    """15.25: ``nightly: {bisect: true}`` adds the DAG and the task that starts it; without, neither is there."""
    from inferbench_tasks.provider.nightly.dag import load_nightly
    from inferbench_tasks.provider.on_device import LeasedTask

    (tmp_path / "digits.yaml").write_text(NIGHT_YAML)
    assert set(load_nightly(tmp_path)) == {"nightly.digits"}
    (tmp_path / "digits.yaml").write_text(NIGHT_YAML + "nightly: {bisect: true}\n")
    dags = load_nightly(tmp_path)
    assert set(dags) == {"nightly.digits", "bisect.digits"}
    night, bisect = dags["nightly.digits"], dags["bisect.digits"]
    assert night.get_task("bisect").upstream_task_ids == {"job-000.decide"}
    assert "bisect" not in night.get_task("verdict").upstream_task_ids
    assert {task.task_id for task in bisect.tasks} == {"job-000.hold", "job-000.bisect", "job-000.release"}
    leased = LeasedTask.of(bisect.get_task("job-000.hold").executor_config)
    assert leased is not None and leased.request is not None
    assert leased.request.job["priority"] == -100 and leased.request.job["deadline_s"] is None
    assert bisect.schedule is None and bisect.get_task("job-000.release").is_teardown


class Started:
    """The task instance of the task that starts a bisection: what the night decided, and which runs there were."""

    def __init__(self, changes: dict[str, Any], before: tuple[str, ...] = ()) -> None:
        self.changes, self.before = changes, before

    def xcom_pull(self, task_ids: str) -> dict[str, Any]:
        return self.changes

    def get_dr_count(self, dag_id: str, run_ids: list[str]) -> int:
        return sum(run in self.before for run in run_ids)


def start_bisection(ti: Started, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What the DAG is started with: its conf and the id of its run."""
    from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

    from inferbench_tasks.provider.nightly.operators import StartBisection

    started: list[Any] = []
    monkeypatch.setattr(
        TriggerDagRunOperator,
        "execute",
        lambda self, context: started.append((self.conf, self.trigger_run_id)),
    )
    task = StartBisection(task_id="bisect", trigger_dag_id="bisect.digits", decided_by="decide")
    context: Any = {"ti": ti}
    task.execute(context)
    return started[0]  # type: ignore[no-any-return]


def test_a_confirmed_regression_starts_its_bisection_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """15.25: with the commits and the figure; again, without a regression, or within one commit nothing is started."""
    from airflow.sdk.exceptions import AirflowSkipException

    confirmed = found(regressions=[CHANGE | {"bisect": None}, CHANGE | {"bisect": START}])
    conf, run_id = start_bisection(Started(confirmed), monkeypatch)
    assert conf == START and run_id == "aaaaaaaaaaaa-bbbbbbbbbbbb-p50_ms"
    for ti in (
        Started(confirmed, before=(run_id,)),
        Started(found()),
        Started(found(improvements=[CHANGE | {"bisect": START}])),
        Started(found(regressions=[CHANGE | {"bisect": None}])),
    ):
        with pytest.raises(AirflowSkipException):
            start_bisection(ti, monkeypatch)


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[Any]]]:
    """A receiver: its URL, and what it got."""
    got: list[Any] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook", got
        server.shutdown()
        thread.join()


def test_a_webhook_is_told_of_regressions_and_improvements_only(
    webhook: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet night posts nothing; a regression posts the series, the change and the stage."""
    from inferbench_tasks.provider.nightly.notify import notifiers

    url, got = webhook
    monkeypatch.setenv("INFERBENCH_NIGHTLY_NOTIFY", url)
    (notify,) = notifiers()
    notify(context())
    notify(context(suspicions=[CHANGE]))
    assert got == []
    notify(context(regressions=[CHANGE]))
    notify(context(improvements=[{**CHANGE, "change_percent": -4.0}]))
    assert [message["text"] for message in got] == [
        "regression: digits-p50_ms +12.3% in preprocess",
        "improvement: digits-p50_ms -4.0% in preprocess",
    ]
    assert got[0]["regressions"] == [CHANGE]


def test_a_notification_offers_the_bisection() -> None:
    """15.25: of a change between two commits, the exact command stands under it."""
    from inferbench_tasks.provider.nightly.operators import message

    start = {"figure": "p50_ms", "good": "a" * 40, "bad": "b" * 40}
    text = message(found(regressions=[{**CHANGE, "bisect": start}]))["text"]
    assert text.splitlines() == [
        "regression: digits-p50_ms +12.3% in preprocess",
        f"which commit made it: inferbench regress bisect /n/digits.yaml --good {'a' * 12} --bad {'b' * 12}",
    ]


class Mailbox(socketserver.StreamRequestHandler):
    """The least of an SMTP server: takes one mail."""

    mails: list[str]

    def handle(self) -> None:
        self.wfile.write(b"220 ready\r\n")
        for raw in self.rfile:
            verb = raw[:4].upper()
            if verb == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
            if verb == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            self.wfile.write(b"250 ok\r\n")


def test_a_mail_goes_by_airflows_own_smtp_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """mailto: sends one mail with the change to the address, over the connection smtp_default."""
    from inferbench_tasks.provider.nightly.notify import notifiers

    mails: list[str] = []
    handler = type("Handler", (Mailbox,), {"mails": mails})
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        connection = {
            "conn_type": "smtp", "host": "127.0.0.1", "port": port,
            "extra": {"disable_tls": True, "disable_ssl": True, "from_email": "bench@example.org"},
        }  # fmt: skip
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        monkeypatch.setenv("INFERBENCH_NIGHTLY_NOTIFY", "mailto:team@example.org")
        (notify,) = notifiers()
        notify(context())
        notify(context(regressions=[CHANGE]))
        server.shutdown()
    assert len(mails) == 1
    assert "To: team@example.org" in mails[0] and "regression in digits" in mails[0]


def test_an_address_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the setting and what is allowed."""
    from inferbench_tasks.provider.nightly.notify import notifiers

    monkeypatch.setenv("INFERBENCH_NIGHTLY_NOTIFY", "slack:#team")
    with pytest.raises(InputError, match="INFERBENCH_NIGHTLY_NOTIFY.*mailto"):
        notifiers()


@pytest.mark.parametrize("hours_ago", [1, 2, 12, 23])
def test_a_new_deployment_waits_for_its_first_night(monkeypatch: pytest.MonkeyPatch, hours_ago: int) -> None:
    """The first scheduled run of a DAG that never ran is in the future, not the night that has just passed."""
    from airflow.serialization.serialized_objects import DagSerialization

    from inferbench_tasks.provider.nightly.dag import load_nightly

    now = datetime.now(UTC)
    monkeypatch.setenv("INFERBENCH_NIGHTLY_CRON", f"{now.minute} {(now.hour - hours_ago) % 24} * * *")
    for dag in load_nightly(ROOT / "configs" / "nightly").values():
        first = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).next_dagrun_info(
            last_automated_run_info=None
        )
        assert first is not None and first.run_after > now


def test_a_night_of_bricks_goes_on_with_the_next_kind_of_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its job avoids the devices of the kinds that had their night; what is left is what may take a job."""
    from inferbench_tasks.cluster.device import Device
    from inferbench_tasks.provider.nightly.bricks import DONE, bricks_night, kinds_left
    from inferbench_tasks.provider.on_device import LeasedTask

    dag = bricks_night()
    assert {task.task_id for task in dag.tasks} == {
        "job-000.hold", "job-000.measure", "job-000.release", "next", "measured",
    }  # fmt: skip
    assert dag.get_task("next").upstream_task_ids == {"job-000.measure"}
    leased = LeasedTask.of(dag.get_task("job-000.hold").executor_config)
    assert leased is not None and leased.request is not None and leased.request.leaves_out == DONE
    devices = [
        Device(device_id="a", device_type="cpu", name="EPYC", host="a"),
        Device(device_id="b", device_type="cpu", name="Xeon", host="b"),
        Device(device_id="c", device_type="cpu", name="Grace", host="c", health="quarantined"),
        Device(device_id="d", device_type="h100", name="H100", host="b"),
    ]
    assert kinds_left(devices, []) == ["EPYC", "Xeon"] and kinds_left(devices, ["EPYC"]) == ["Xeon"]
    assert kinds_left(devices, ["EPYC", "Xeon"]) == []


def test_after_a_failed_night_of_bricks_the_other_kinds_have_theirs_and_the_run_is_a_failed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has told its kind before it fails; the next kind is started whatever it came to, and a last task beside it
    takes part in the run's state. A night that never had a device is followed by none."""
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    from inferbench_tasks.monitors.environment import processor
    from inferbench_tasks.provider.nightly.bricks import KIND, bricks_night
    from inferbench_tasks.provider.nightly.operators import MeasuringOperator

    dag = bricks_night()
    assert dag.get_task("next").trigger_rule == "all_done"
    beside = dag.get_task("measured")
    assert beside.trigger_rule == "all_success" and beside.upstream_task_ids == {"job-000.measure"}
    assert not beside.downstream_task_ids

    def fail(self: Any, context: Any) -> None:
        raise AirflowFailException("a brick could not be timed")

    monkeypatch.setattr(MeasuringOperator, "execute", fail)
    ti = Left()
    measured: Any = dag.get_task("job-000.measure")
    with pytest.raises(AirflowFailException):
        measured.execute({"ti": ti})
    assert ti.left == {KIND: processor()}
    following: Any = dag.get_task("next")
    with pytest.raises(AirflowSkipException, match="no device"):
        following.execute({"ti": Left(), "params": {}})


def test_a_night_that_asks_for_systems_chooses_before_it_takes_a_device(tmp_path: Path) -> None:
    """Its DAG is read without a device; the executor is told which task has chosen. So has its bisection; a night that
    names its device has no such task, and one of all systems is refused.
    """
    from inferbench_tasks.provider.nightly.dag import load_nightly
    from inferbench_tasks.provider.on_device import LeasedTask

    def asked(*lines: str) -> dict[str, Any]:
        (tmp_path / "digits.yaml").write_text(NIGHT_YAML + "\n".join(lines))
        return load_nightly(tmp_path)

    def chosen_by(dag: Any) -> str:
        leased = LeasedTask.of(dag.get_task("job-000.hold").executor_config)
        assert leased is not None and leased.request is not None
        return leased.request.chosen_by

    dags = asked("systems: {arch: x86_64, cores: '>=1'}", "nightly: {bisect: true}")
    assert set(dags) == {"nightly.digits", "bisect.digits"}
    for dag in dags.values():
        assert dag.get_task("job-000.hold").upstream_task_ids == {"choose"} and chosen_by(dag) == "choose"
        assert dag.get_task("choose").file == str(tmp_path / "digits.yaml")
    (plain,) = asked().values()
    assert "choose" not in plain.task_dict and chosen_by(plain) == ""
    (broken,) = asked("systems: {all: true}").values()
    with pytest.raises(InputError, match="is of one kind of system"):
        broken.get_serialized_fields()
