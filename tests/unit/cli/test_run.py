"""``inferbench run``, as far as it needs no run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.cli.progress import Watcher
from inferbench_tasks.cli.run import in_ci, passes, what_to_do
from inferbench_tasks.contracts.verdict import NOTED, VALID, Reason, Verdict
from inferbench_tasks.pipelines.serving import SERVING
from inferbench_tasks.pipelines.training import TRAINING
from inferbench_tasks.running.invocation import Invocation

LOGGING = """
import logging
from pathlib import Path
from inferbench_tasks.cli.run import log_into
log_into(Path("/dev/full"))
logging.getLogger("inferbench_tasks.perfdb.session").warning("perfdb is away")
"""


def test_a_log_on_a_full_disk_is_no_traceback() -> None:
    """What the log can't take is lost without a word: the run itself says that there is no space."""
    done = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_stage_refuses_is_bad_input(tmp_path: Path) -> None:
    """A stage that fails for other reasons is none; a stage of an older version told nothing of it."""
    cases: list[tuple[list[dict[str, Any]], bool]] = [
        ([{"error": "x", "refused": True}, {"error": "y", "refused": False}], True),
        ([{"error": "x", "refused": False}, {"error": "y"}], False),
    ]
    for ends, refused in cases:
        invocation = Invocation.new(tmp_path, "x")
        for end in ends:
            invocation.tell(event="end", stage="generate", job=None, state="failed", **end)
        watcher = Watcher(invocation, [])
        with subprocess.Popen(["true"]) as child:
            watcher.watch(child, grace_s=1.0)
        assert watcher.refused is refused


STOLEN = Verdict.judged([Reason(check="interference.steal", text="the hypervisor took 30% (at most 5%)")])
ONLY_NOTED = Verdict.judged([Reason(check=NOTED, text="only noted")])
LATE = Verdict.judged([Reason(check="rate", text="too few were sent")])


def test_a_disturbed_run_fails_nobody_but_the_strict() -> None:
    """Its stimulus was right; an invalid, failed or cancelled run is no success in either case."""
    assert STOLEN.kind == "disturbed"
    assert passes([VALID, VALID], strict=True)
    assert passes([VALID, STOLEN], strict=False) and not passes([VALID, STOLEN], strict=True)
    for verdict in (LATE, Verdict.failed("load", "x"), Verdict.cancelled("load")):
        assert not passes([VALID, verdict], strict=False)


@pytest.mark.parametrize(
    ("value", "strict"), [(None, False), ("", False), ("false", False), ("true", True), ("1", True)]
)
def test_a_build_server_is_strict(monkeypatch: pytest.MonkeyPatch, value: str | None, strict: bool) -> None:
    """They set the variable CI; nobody else has to ask for it."""
    monkeypatch.delenv("CI", raising=False)
    if value is not None:
        monkeypatch.setenv("CI", value)
    assert in_ci() is strict


def test_one_sentence_says_what_to_do_about_a_disturbance() -> None:
    """Of all disturbed runs together; nothing where there is none."""
    assert what_to_do([VALID, LATE]) is None
    text = what_to_do([VALID, STOLEN])
    assert text is not None and text.count(". ") == 0 and text.endswith(".")
    assert text.startswith("1 of 2 run(s) were disturbed") and "run it again" in text
    assert "unset INFERBENCH_INTERFERENCE" in (what_to_do([ONLY_NOTED]) or "")


def test_the_sentence_names_only_fields_that_the_submission_has() -> None:
    """A training does not wait for a quiet machine, so it is not told to wait longer."""
    serving, training = (pipeline.patience for pipeline in (SERVING, TRAINING))
    assert "with a longer load.wait_for_quiet_s, or" in (what_to_do([STOLEN], serving) or "")
    assert training is None and "wait_for_quiet_s" not in (what_to_do([STOLEN], training) or "")
