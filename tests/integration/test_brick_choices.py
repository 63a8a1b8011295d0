"""Which times stand in one prediction, and which predictions beside each other, from a real PerfDB: by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.gaps import gaps
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import WHOLE, Result
from inferbench_tasks.cli.bricks import app
from inferbench_tasks.client.api import InferBench
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
API = "/inferbench/api/bricks"


class Device:
    """One with models whose times are made up."""

    def __init__(
        self,
        db: PerfDB,
        name: str = "Some CPU",
        isa: str = "x",
        runtime: str = "onnxruntime 1",
        threads: int = 1,
    ) -> None:
        self.setting = Setting(
            processor=name, instruction_set=isa, cores=threads, threads=threads, runtime=runtime
        )
        self.results = PerfDBResults(db, self.setting)
        self.results.set_base_ns({"dense": 1.0})

    def put(self, identity: str, ms: float, at: datetime | None = None) -> None:
        dated: dict[str, Any] = {} if at is None else {"measured_at": at}
        times = {"warm": (ms * 1e6,) * 3, "streamed": (ms * 2e6,) * 3}
        self.results.put(
            Result(
                identity=identity, key=identity, operators=(identity[0] + identity[-1],), setting=self.setting,
                session="s", method=Method(), rounds_ns=times, raw_ns={}, **dated,
            )
        )  # fmt: skip

    def model(
        self,
        name: str,
        ms: Sequence[float],
        batch: int = 1,
        length: int | None = None,
        task: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Cut for this device, at a ``length`` of its texts; ``ms``: of each brick, 0: not measured."""
        of = f"{name}-{length}-{batch}"
        parts = tuple(f"{of}-{number}" for number in range(len(ms)))
        shapes = () if length is None else (("ids", (length,)),)
        one = CutModel(
            at=0, name=name, copies=1, task=task, digest=name, batch_size=batch, granularity="1", layers=len(ms),
            operators=(name,) * len(ms), whole=WHOLE + of, parts=parts,
            needs=tuple((number - 1,) if number else () for number in range(len(ms))), shapes=shapes,
            made_from=f"{name} {length}", source=name, runtime=self.setting.runtime_name,
        )  # fmt: skip
        self.results.put_cuts([one])
        for part, each in zip(parts, ms, strict=True):
            if each:
                self.put(part, each, at)


@pytest.fixture
def some(perfdb: PerfDB) -> Device:
    return Device(perfdb)


def ask(http: TestClient, what: str, **params: Any) -> dict[str, Any]:
    found = http.get(f"{API}/{what}", params=params)
    assert found.status_code == 200, found.text
    return dict(found.json())


def refused(http: TestClient, what: str, **params: Any) -> str:
    found = http.get(f"{API}/{what}", params=params)
    assert found.status_code == 404, found.text
    return str(found.text)


def test_nothing_lies_between_two_lengths(http: TestClient, some: Device) -> None:
    """Cut at batch 1 with 40 tokens and at batch 8 with 128: batch 4 is refused, with what is there. At 128 tokens in
    both it is interpolated, and the answer says at how many tokens."""
    some.model("m", (1.0, 3.0), 1, 40)
    some.model("m", (16.0, 20.0), 8, 128)
    assert "measured there at batch 8 (ids=128); 4 is beyond" in refused(
        http, "predict", model="m", batch_size=4
    )
    some.model("m", (2.0, 6.0), 1, 128)
    found = ask(http, "predict", model="m", batch_size=4)
    assert (found["shapes"], found["interpolated_between"]) == ("ids=128", [1, 8])
    assert found["predicted_ms"] == pytest.approx((2 + 3 / 7 * 14) + (6 + 3 / 7 * 14))


def test_models_of_several_lengths_do_not_judge_an_interpolation(http: TestClient, some: Device) -> None:
    """Three others were cut at 40 tokens in the small batch and at 128 in the larger ones; at 128 in all of them they
    tell how far it is off."""
    others = "abc"
    for name in others:
        some.model(name, (1.0,), 1, 40)
        for batch, ms in ((4, 9.0), (8, 16.0)):
            some.model(name, (ms,), batch, 128)
    for batch, ms in ((1, 1.0), (8, 8.0)):
        some.model("m", (ms,), batch, 128)
    assert ask(http, "predict", model="m", batch_size=4)["interpolation_judged_by"] == 0
    for name in others:
        some.model(name, (2.0,), 1, 128)
    assert ask(http, "predict", model="m", batch_size=4)["interpolation_judged_by"] == 3


def test_devices_are_compared_at_one_length_and_those_without_it_are_named(
    http: TestClient, perfdb: PerfDB, some: Device
) -> None:
    """It was cut at 40 tokens for one instruction set and then at 128 for another: what is ranked says 128, and the
    first device says what it lacks and what helps. So does one for which nothing was cut at all."""
    other, third = Device(perfdb, "Other CPU", "y"), Device(perfdb, "Third CPU", "z")
    other.model("m", (1.0,), 1, 40)
    some.model("m", (5.0,), 1, 128)
    found = ask(http, "advise", model="m")
    [one] = found["ranked"]
    assert (one["device"], one["shapes"], one["precision"], one["view"]) == (
        "Some CPU",
        "ids=128",
        "fp32",
        "runtime",
    )
    whys = {row["device"]: row["why"] for row in found["left_out"]}
    assert set(whys) == {"Other CPU", "Third CPU"}
    assert "not cut for the instruction set y at ids=128" in whys["Other CPU"]
    assert (
        "`inferbench bricks predict` on that machine" in whys["Other CPU"]
        and "--view portable" in whys["Third CPU"]
    )
    assert third.setting.instruction_set in whys["Third CPU"]
    assert "not cut for the instruction set y" in refused(http, "predict", model="m", device="other")


def test_a_part_of_several_names_is_no_device(
    http: TestClient, perfdb: PerfDB, some: Device, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused with these, over REST and by the command, before a model is made; one by its own name is meant."""
    for device, ms in ((some, 1.0), (Device(perfdb, "Some CPU 2"), 2.0)):
        device.model("m", (ms,))
    for part in ("some", ""):
        said = refused(http, "predict", model="m", device=part)
        assert "Some CPU, Some CPU 2" in said
    assert ask(http, "predict", model="m", device="some cpu")["device"] == "Some CPU"
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    with pytest.raises(InputError, match="'Some' is part of several names: Some CPU, Some CPU 2"):
        CliRunner().invoke(app, ["predict", "digits", "--device", "Some"], catch_exceptions=False)


def test_a_prediction_is_of_as_many_threads_as_were_asked_for(
    http: TestClient, perfdb: PerfDB, some: Device
) -> None:
    """One by default, though four are faster and were timed last; other numbers are refused with those that there are.
    The Python client asks for as many."""
    some.model("m", (4.0,))
    Device(perfdb, threads=4).model("m", (1.0,))
    assert ask(http, "predict", model="m")["predicted_ms"] == pytest.approx(4)
    assert ask(http, "predict", model="m", threads=4)["predicted_ms"] == pytest.approx(1)
    assert "with 2 thread(s); there: 1, 4" in refused(http, "predict", model="m", threads=2)
    inner: Any = http
    client: httpx.Client = inner
    bench = InferBench("http://testserver", "ann", "x", http=client)
    assert bench.predict("m")["threads"] == 1 and bench.predict("m", threads=4)["threads"] == 4
    with pytest.raises(InputError, match="there: 1, 4"):
        bench.predict("m", threads=3)


def test_all_runtimes_that_have_times_are_compared_unless_one_is_named(
    http: TestClient, perfdb: PerfDB, some: Device
) -> None:
    """The faster one is first, each by its name; what one was never cut for is said. Over REST and in the client."""
    some.model("m", (4.0,))
    Device(perfdb, runtime="openvino 1").model("m", (1.0,))
    Device(perfdb, runtime="third 1")
    found = ask(http, "advise", model="m")
    assert [(row["runtime"], row["predicted_ms"]) for row in found["ranked"]] == [
        ("openvino 1", pytest.approx(1)),
        ("onnxruntime 1", pytest.approx(4)),
    ]
    [left] = found["left_out"]
    assert left["runtime"] == "third" and "never cut" in left["why"]
    only = ask(http, "advise", model="m", runtime="onnxruntime")
    assert [row["runtime"] for row in only["ranked"]] == ["onnxruntime 1"] and not only["left_out"]


def test_models_are_compared_by_one_version_of_a_runtime(
    http: TestClient, perfdb: PerfDB, some: Device
) -> None:
    """All three have times by version 1, two of them, later and faster ones, by version 2: by version 1, by which most
    are known."""
    for name, ms in (("a", 4.0), ("b", 5.0)):
        some.model(name, (ms,), task="t")
    newer = Device(perfdb, runtime="onnxruntime 2")
    newer.put("a-None-1-0", 1.0)
    newer.model("c", (1.0,), task="t")
    some.put("c-None-1-0", 3.0)
    found = ask(http, "advise", task="t")
    assert [(row["model"], row["runtime"]) for row in found["ranked"]] == [
        ("c", "onnxruntime 1"),
        ("a", "onnxruntime 1"),
        ("b", "onnxruntime 1"),
    ]


def test_devices_with_several_versions_are_ranked_and_that_is_said(
    perfdb: PerfDB, some: Device, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command, in words."""
    some.model("m", (4.0,))
    Device(perfdb, "Other CPU", runtime="onnxruntime 2").model("m", (5.0,))
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    done = CliRunner().invoke(app, ["advise", "--model", "m"])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "several versions of onnxruntime" in said and "onnxruntime 2 on Other CPU" in said
    assert "requests_per_s" in said and "samples_per_s" not in said


def test_how_old_its_times_are_stands_in_a_prediction(http: TestClient, some: Device) -> None:
    """From the oldest to the newest, and how many of them are older than 30 days; in advice, too."""
    now = datetime.now(UTC).replace(microsecond=0)
    some.model("m", (4.0, 5.0), at=now - timedelta(days=40))
    some.model("n", (1.0,), at=now - timedelta(days=2))
    found = ask(http, "predict", model="m")
    assert datetime.fromisoformat(found["oldest_at"]) == now - timedelta(days=40) and found["old"] == 2
    assert ask(http, "predict", model="n")["old"] == 0
    [row] = ask(http, "advise", model="m")["ranked"]
    assert (row["oldest_at"], row["newest_at"], row["old"]) == (found["oldest_at"], found["newest_at"], 2)


def test_rates_and_costs_name_what_they_are_of(http: TestClient, some: Device) -> None:
    """8 ms for a request of 4 samples: 125 requests and 500 samples in a second; what 1,000 samples cost is a quarter
    of what 1,000 requests do, or neither is known."""
    some.model("m", (8.0,), batch=4)
    [row] = ask(http, "advise", model="m", batch_size=4)["ranked"]
    assert (row["requests_per_s"], row["samples_per_s"]) == pytest.approx((125, 500))
    for figure in ("usd_per_1k", "g_per_1k"):
        assert (row[figure] is None) == (row[f"{figure}_samples"] is None)


def test_a_prediction_from_stored_times_alone_says_that_nothing_was_timed(
    http: TestClient, some: Device
) -> None:
    """The keys that one has that was timed now are there: nothing, and undisturbed by anything."""
    some.model("m", (1.0,))
    found = ask(http, "predict", model="m")
    assert found["measured_now"] == 0 and found["disturbed"] is None


def test_gaps_have_old_times_and_what_was_not_cut_for_a_device(
    http: TestClient, perfdb: PerfDB, some: Device, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing brick first, then old ones, then, without numbers, a model of another instruction set; on the page with
    its precision. Where it has times for all of its bricks in the view that is of none, it is none of these."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    some.model("fresh", (1.0,))
    nothing = CliRunner().invoke(app, ["gaps"]).output
    assert "Nothing is missing" in nothing
    some.model("old", (1.0, 2.0), at=datetime.now(UTC) - timedelta(days=40))
    some.model("lacking", (1.0, 0))
    other = Device(perfdb, "Other CPU", "y")
    rows = gaps(perfdb, "some")
    assert [(row["model"], row["missing"], row["old"], row["note"]) for row in rows] == [
        ("lacking", 1, 0, None),
        ("old", 0, 2, None),
    ]
    there = gaps(perfdb, "other")
    assert {row["model"] for row in there} == {"fresh", "old", "lacking"}
    assert all(
        "not cut for this instruction set (y)" in row["note"] and row["missing"] is None for row in there
    )
    assert {row["model"] for row in gaps(perfdb)[-3:]} == {"fresh", "old", "lacking"}
    text = http.get("/inferbench/bricks").text
    assert "not cut for this instruction set (y)" in text and text.count("<td>fp32</td>") >= 5
    facts = {"model": "fresh", "batch_size": 1, "instruction_set": None, "view": "portable", "layers": 1}
    other.results.put_cut(f"{WHOLE}fresh-portable", "1", ["portable"], [[]], facts)
    other.put("portable", 1.0)
    assert {row["model"] for row in gaps(perfdb, "other")} == {"old", "lacking"}
