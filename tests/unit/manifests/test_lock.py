"""The lock of a run: complete, the same for the same, and what differs is named before anything runs."""

from __future__ import annotations

import hashlib
import subprocess
from importlib.metadata import version
from typing import Any

import pytest

from inferbench_tasks.backends.environments import LOCKS
from inferbench_tasks.backends.own_server import OwnServer
from inferbench_tasks.contracts.handles import BackendInfo, DataManifest, ModelArtifact, RequestSet
from inferbench_tasks.manifests import pins
from inferbench_tasks.manifests.built_in.datasets import named_dataset
from inferbench_tasks.manifests.lock import compare, digest_of, measured, planned
from inferbench_tasks.monitors import environment
from inferbench_tasks.submission.digest import job_digest
from inferbench_tasks.submission.schema import JobSpec


@pytest.fixture(autouse=True)
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the checkout's state is."""
    monkeypatch.setattr(environment, "git_state", lambda: ("f" * 40, False))


def job(**changes: Any) -> JobSpec:
    model = {"kind": "zoo", "name": "digits"}
    load = {"arrivals": {"kind": "poisson", "rate_rps": 5}}
    return JobSpec.model_validate({"name": "x", "model": model, "load": load, **changes})


def ran(spec: JobSpec, runtime: str, evaluation: RequestSet | None = None) -> dict[str, Any]:
    source = ModelArtifact(
        name="digits",
        version=3,
        framework="sklearn",
        format="sklearn",
        path="/m",
        digest="a" * 64,
        inputs=(),
        outputs=(),
    )
    served = source.model_copy(update={"format": "onnx", "digest": "b" * 64})
    requests = RequestSet(path="/r", reference_path="/a", samples=3, digest="c" * 64, dataset="digits")
    backend = BackendInfo(kind="onnxruntime", version=runtime, launcher="process", label="", settings={})
    return measured(spec, source, served, requests, backend, evaluation)


def test_a_lock_says_each_version_and_hash() -> None:
    """Of this environment, looked up beside; what only a run tells is None before it and there after it."""
    spec, mine = job(), version("onnxruntime")
    before, after = planned(spec), ran(spec, mine)
    assert before["job_digest"] == job_digest(spec)
    assert before["runtime"] == {
        "backend": "onnxruntime", "package": "onnxruntime", "version": mine, "where": "here"
    }  # fmt: skip
    assert before["framework"]["name"] == "sklearn"
    assert before["framework"]["version"] == version("scikit-learn")
    hashes = sorted(pins.pins_of(pins.CONSTRAINTS)["onnxruntime"].hashes)
    expected = hashlib.sha256("\n".join(hashes).encode()).hexdigest()
    assert before["packages"]["onnxruntime"] == {"version": mine, "hashes_sha256": expected}
    assert before["model"]["source_digest"] is None and before["data"]["requests_digest"] is None
    assert after["model"]["source_digest"] == "a" * 64 and after["model"]["served_digest"] == "b" * 64
    assert after["data"] == {"dataset": "digits", "requests_digest": "c" * 64, "evaluation": None}
    assert before["digest"] == digest_of(before) != after["digest"]
    assert planned(job())["digest"] == before["digest"]


def test_a_finished_run_asks_no_runtime_for_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran has told it: a program that does not answer just then loses nothing that was measured."""

    def silent(self: OwnServer) -> str:
        raise subprocess.TimeoutExpired("tensorflow_model_server --version", 30)

    monkeypatch.setattr(OwnServer, "version", silent)
    assert ran(job(), "1.2.3")["runtime"]["version"] == "1.2.3"
    assert planned(job())["runtime"]["version"] is None


def test_a_backend_with_an_environment_of_its_own_says_its_lock() -> None:
    """By the SHA-256 of the file; without comparing hashes there is none."""
    lock = planned(
        job(serve={"backend": "mlserver"}, load={**job().traffic.model_dump(mode="json"), "protocol": "grpc"})
    )
    expected = hashlib.sha256((LOCKS / "mlserver.txt").read_bytes()).hexdigest()
    assert lock["environment"]["lock_sha256"] == expected
    assert lock["runtime"]["where"] == "environment mlserver"


def test_hashes_that_are_not_compared_are_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """INFERBENCH_REQUIRE_HASHES=0 installs whatever there is."""
    monkeypatch.setenv("INFERBENCH_REQUIRE_HASHES", "0")
    assert planned(job(serve={"backend": "mlserver"}))["environment"]["lock_sha256"] is None


def test_before_a_run_only_what_is_known_is_compared() -> None:
    """The same job: nothing differs. Another runtime, hash or setting is named with both values."""
    spec, mine = job(), version("onnxruntime")
    then, now = ran(spec, mine), planned(spec)
    assert compare(then, now, before=True) == []
    assert {row["field"] for row in compare(then, now)} >= {"model.source_digest", "data.requests_digest"}
    assert compare(ran(spec, "1.19.2"), now, before=True) == [
        {"field": "runtime.version", "then": "1.19.2", "now": mine}
    ]
    changed = {**then, "packages": {**then["packages"], "numpy": {"version": "1.0", "hashes_sha256": None}}}
    assert {row["field"] for row in compare(changed, now, before=True)} == {
        "packages.numpy.version", "packages.numpy.hashes_sha256"
    }  # fmt: skip
    other = planned(job(serve={"threads": 2}))
    assert {row["field"] for row in compare(then, other, before=True)} == {"job_digest"}
    slower = planned(job(load={"arrivals": {"kind": "poisson", "rate_rps": 4}}))
    assert {row["field"] for row in compare(now, slower)} == {"job_digest", "scenario.digest"}


def test_an_image_does_not_have_the_version_that_is_installed_here() -> None:
    """Where no manifest tells it, it is unknown before the run, and no difference; a manifest tells any build of it."""
    now = planned(job(serve={"launcher": "container"}))
    assert now["runtime"]["version"] is None and now["runtime"]["where"] == "container"

    def of(runtime: str) -> dict[str, Any]:
        return {**now, "runtime": {**now["runtime"], "version": runtime}}

    assert compare(of("1.2.3"), now, before=True) == []
    assert compare(of("2.13.0+cpu"), of("2.13.0"), before=True) == []
    for other in ("2.13.0+cu130", "2.12.0"):
        assert compare(of("2.13.0+cpu"), of(other), before=True) == [
            {"field": "runtime.version", "then": "2.13.0+cpu", "now": other}
        ]


def test_how_long_a_load_waits_for_quiet_is_no_part_of_it() -> None:
    """As of a job's digest."""
    load = {"arrivals": {"kind": "poisson", "rate_rps": 5}, "wait_for_quiet_s": 1}
    assert compare(planned(job()), planned(job(load=load))) == []


def test_what_only_making_the_model_tells_is_no_difference_before_it() -> None:
    """The framework of a file's and a registered model, and the repository's latest version; afterwards they count."""
    for model in ({"kind": "registry", "name": "ours"}, {"kind": "file", "path": "m.onnx"}):
        spec = job(model=model)
        then, now = ran(spec, version("onnxruntime")), planned(spec)
        assert then["framework"]["name"] == "sklearn" and now["framework"] is None
        assert then["model"]["version"] == (3 if model["kind"] == "registry" else None)
        assert compare(then, now, before=True) == []
        assert "framework.name" in {row["field"] for row in compare(then, now)}
    newer = planned(job(model={"kind": "registry", "name": "ours", "version": 4}))
    rows = compare(ran(job(model={"kind": "registry", "name": "ours"}), "1"), newer, before=True)
    assert {"field": "model.version", "then": 3, "now": 4} in rows


def test_uncommitted_changes_are_never_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the same commit may be of different code: one row says so; where one is clean, its field differs."""
    spec = job()
    clean = planned(spec)
    monkeypatch.setattr(environment, "git_state", lambda: ("f" * 40, True))
    dirty = planned(spec)
    for before in (True, False):
        (row,) = compare(dirty, dirty, before=before)
        assert row["field"] == "inferbench.git_dirty" and "can't be compared" in row["then"]
        assert compare(clean, dirty, before=before) == [
            {"field": "inferbench.git_dirty", "then": False, "now": True}
        ]


def test_what_an_evaluation_asks_is_in_the_lock() -> None:
    """Its data set and digest; before a run they are not known, and other ones differ."""
    asked = RequestSet(path="/e", reference_path="/f", samples=3, digest="d" * 64, dataset="fashion")
    spec = job(evaluate={"dataset": "digits"})
    then = ran(spec, version("onnxruntime"), asked)
    assert then["data"]["evaluation"] == {"dataset": "fashion", "digest": "d" * 64, "manifest": None}
    assert compare(then, planned(spec), before=True) == []
    other = ran(spec, version("onnxruntime"), asked.model_copy(update={"digest": "e" * 64}))
    assert compare(then, other) == [{"field": "data.evaluation.digest", "then": "d" * 64, "now": "e" * 64}]


def test_which_version_of_a_data_set_is_asked_is_in_the_lock_before_the_run() -> None:
    """The manifest of the data set that is named; another version differs before anything runs. Results of before have
    none, and a model's own is not known before: neither is a difference.
    """
    spec, mine = job(evaluate={"dataset": "digits"}), version("onnxruntime")
    manifest = named_dataset("digits")
    assert manifest is not None and manifest.version == "1.2.0"
    now = planned(spec)
    assert now["data"]["evaluation"] == {"dataset": None, "digest": None, "manifest": manifest.record()}
    asked = RequestSet(path="/e", reference_path="/f", samples=3, digest="d" * 64, dataset="digits")
    record = DataManifest(name="digits", version="1.2.0", digest=manifest.digest)
    then = ran(spec, mine, asked.model_copy(update={"manifest": record}))
    assert then["data"]["evaluation"]["manifest"] == manifest.record()
    assert compare(then, now, before=True) == []
    older = ran(
        spec, mine, asked.model_copy(update={"manifest": record.model_copy(update={"version": "1.0.9"})})
    )
    rows = [{"field": "data.evaluation.manifest.version", "then": "1.0.9", "now": "1.2.0"}]
    assert compare(older, now, before=True) == compare(older, then) == rows
    assert compare(ran(spec, mine, asked), now, before=True) == compare(ran(spec, mine, asked), then) == []
    own = job(evaluate={})
    assert planned(own)["data"]["evaluation"] is None
    assert (
        compare(ran(own, mine, asked.model_copy(update={"manifest": record})), planned(own), before=True)
        == []
    )
