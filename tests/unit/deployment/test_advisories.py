"""Pins against stored advisories: what is in a range is found, and nothing is accepted for ever."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from scripts import check_advisories


def affected(*events: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"package": {"ecosystem": "PyPI", "name": "x"}, "ranges": [{"events": list(events)}], **more}


@pytest.mark.parametrize(
    ("version", "inside"),
    [("0.9", False), ("1.0", True), ("1.9.9", True), ("2.0", False), ("2.5", False), ("3.0rc1", True), ("4", True),
     ("4.0.1", False), ("7", True)],
)  # fmt: skip
def test_a_range_begins_with_introduced_and_ends_before_fixed(version: str, inside: bool) -> None:
    """Several ranges in turn, the last affected version included, and versions that are listed by name."""
    events = ({"introduced": "1"}, {"fixed": "2.0"}, {"introduced": "3.0rc1"}, {"last_affected": "4"})
    assert check_advisories.affects(affected(*events, versions=["7"]), Version(version)) is inside


def test_every_pin_is_free_of_the_stored_advisories_or_accepted() -> None:
    """As `make lint` asks: nothing is open, and nothing is accepted that is gone."""
    assert check_advisories.main() == 0


def test_an_affected_pin_fails_and_so_does_what_needs_no_acceptance(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its id, the pin and what to do."""
    monkeypatch.setattr(check_advisories, "ADVISORIES", tmp_path)
    monkeypatch.setattr(check_advisories, "FILES", (tmp_path / "pins.txt",))
    record = {
        "id": "GHSA-t",
        "summary": "runs code",
        "affected": [affected({"introduced": "0"}, {"fixed": "2"})],
    }
    (tmp_path / "osv.json").write_text(json.dumps([record]))
    (tmp_path / "accepted.json").write_text("{}")
    (tmp_path / "pins.txt").write_text("x==1.9 \\\n    --hash=sha256:0\n")
    assert check_advisories.main() == 1
    assert "GHSA-t x==1.9: runs code" in capsys.readouterr().err
    (tmp_path / "accepted.json").write_text('{"GHSA-t x==1.9": "not reached"}')
    assert check_advisories.main() == 0
    (tmp_path / "pins.txt").write_text("x==2\n")
    assert check_advisories.main() == 1
    assert "remove it from accepted.json" in capsys.readouterr().err


def test_the_stored_records_are_osvs_and_each_acceptance_says_what_protects() -> None:
    """Real ids, the ecosystem's names, ranges in order; a reason of a sentence at least."""
    folder = check_advisories.ADVISORIES
    records = json.loads((folder / "osv.json").read_text())
    assert len({record["id"] for record in records}) == len(records) > 10
    for record in records:
        assert re.fullmatch(r"GHSA(-[0-9a-z]{4}){3}|CVE-\d{4}-\d+|PYSEC-\d{4}-\d+", record["id"])
        for part in record["affected"]:
            assert part["package"]["ecosystem"] == "PyPI"
            assert re.fullmatch("[a-z0-9-]+", part["package"]["name"])
            bounds = [Version(*event.values()) for entry in part["ranges"] for event in entry["events"]]
            assert bounds == sorted(bounds)
    assert all(len(reason) > 40 for reason in json.loads((folder / "accepted.json").read_text()).values())
