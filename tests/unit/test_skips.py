"""What the suite says about the tests that it skipped."""

from __future__ import annotations

import pytest

from tests import docker_engine, nginx, skips


def skipped(test: str, reason: str) -> pytest.TestReport:
    place = ("tests/x.py", 1, f"Skipped: {reason}")
    return pytest.TestReport(test, ("tests/x.py", 1, test), {}, "skipped", place, "setup")


def test_each_reason_is_one_line_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tests in however many files; the reason that kept the most tests from running first."""
    monkeypatch.setattr("shutil.which", lambda program: None)
    monkeypatch.setattr("pathlib.Path.exists", lambda path: False)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    lacking = {"a": nginx.missing(), "b": docker_engine.impossible(), "c": docker_engine.impossible()}
    assert skips.lines([skipped(test, str(reason)) for test, reason in lacking.items()]) == [
        "2 tests skipped: no Docker engine is installed (Debian: apt-get install docker.io)",
        "1 test skipped: nginx is not installed (Debian: apt-get install nginx libnginx-mod-http-lua)",
    ]
