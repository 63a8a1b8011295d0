"""The leader's signature on what it sends, and what a worker refuses."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.provider.joining.signing import FILE, LASTS_S, SigningKey
from inferbench_tasks.provider.joining.tokens import FOLDER
from inferbench_tasks.provider.joining.verifying import Verifier, is_signed

ID, OTHER_ID = "6d2c0bb0-0000-4000-8000-000000000001", "6d2c0bb0-0000-4000-8000-000000000002"
WORKLOAD = json.dumps({"type": "ExecuteTask", "token": "t"})


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.of(tmp_path / "system")


@pytest.fixture
def verifier(key: SigningKey, tmp_path: Path) -> Verifier:
    return Verifier(key.public, "host", tmp_path / "begun")


def test_what_the_leader_signed_opens_once(key: SigningKey, verifier: Verifier) -> None:
    """It is the workload, byte for byte; the same message again is refused, also after the worker was started again."""
    sent = key.sign(WORKLOAD, "host", ID)
    assert is_signed(sent) and not is_signed(WORKLOAD)
    assert verifier.open(sent, ID) == WORKLOAD
    for again in (verifier, Verifier(key.public, "host", verifier.begun)):
        with pytest.raises(InputError, match=f"message {ID} has begun before"):
            again.open(sent, ID)
    assert verifier.open(key.sign(WORKLOAD, "host", OTHER_ID), OTHER_ID) == WORKLOAD


@pytest.mark.parametrize(
    ("queue", "carried", "match"),
    [
        ("node:cpu:1", ID, "signed for the queue 'node:cpu:1', and this one is 'host'"),
        ("host", OTHER_ID, f"signed for the message '{ID}', and this one is '{OTHER_ID}'"),
        ("host", None, "and this one is None"),
    ],
)
def test_a_signature_holds_for_one_queue_and_one_message(
    key: SigningKey, verifier: Verifier, queue: str, carried: str | None, match: str
) -> None:
    """A message that was read in one queue starts nothing from another, nor under another id."""
    with pytest.raises(InputError, match=match):
        verifier.open(key.sign(WORKLOAD, queue, ID), carried)
    assert not verifier.begun.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda sent: WORKLOAD,
        lambda sent: "",
        lambda sent: json.dumps({**sent, "signature": ""}),
        lambda sent: json.dumps({**sent, "signature": "no hex"}),
        lambda sent: json.dumps({**sent, "signature": "00" * 64}),
        lambda sent: json.dumps({**sent, "signed": sent["signed"].replace("host", "Host")}),
        lambda sent: json.dumps({**sent, "signed": sent["signed"] + " "}),
        lambda sent: json.dumps({**sent, "more": 1}),
    ],
)
def test_what_is_not_signed_or_was_changed_is_refused(
    key: SigningKey, verifier: Verifier, change: Any
) -> None:
    """One character is enough."""
    with pytest.raises(InputError, match="the leader has not signed it"):
        verifier.open(change(json.loads(key.sign(WORKLOAD, "host", ID))), ID)


def test_another_leader_s_signature_is_none(verifier: Verifier, tmp_path: Path) -> None:
    """Each system has a key of its own."""
    with pytest.raises(InputError, match="has not signed it"):
        verifier.open(SigningKey.of(tmp_path / "other").sign(WORKLOAD, "host", ID), ID)


@pytest.mark.parametrize("kind", ["ExecuteCallback", "TestConnection", "RunTrigger", None])
def test_only_tasks_are_executed(key: SigningKey, verifier: Verifier, kind: str | None) -> None:
    """Whoever signed it: a callback would name the function to call."""
    with pytest.raises(InputError, match=f"of type {kind!r}; allowed is ExecuteTask"):
        verifier.open(key.sign(json.dumps({"type": kind}), "host", ID), ID)


def test_a_signature_ends(key: SigningKey, verifier: Verifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """After that the id is forgotten as well: what has begun takes no room for good."""
    now_s = 1_000_000_000.0
    monkeypatch.setattr(time, "time", lambda: now_s)
    old, older = key.sign(WORKLOAD, "host", ID), key.sign(WORKLOAD, "host", OTHER_ID)
    verifier.open(old, ID)
    monkeypatch.setattr(time, "time", lambda: now_s + LASTS_S + 1)
    for sent, task_id in ((old, ID), (older, OTHER_ID)):
        with pytest.raises(
            InputError, match="86,401 s ago by this host's clock.*within 86,400 s.*set-ntp true"
        ):
            verifier.open(sent, task_id)
    monkeypatch.setattr(time, "time", lambda: now_s + 3 * LASTS_S)
    verifier.open(key.sign(WORKLOAD, "host", OTHER_ID), OTHER_ID)
    assert [path.name for path in verifier.begun.rglob("*-*")] == [OTHER_ID]


def test_the_key_is_made_once_and_its_owner_s_alone(key: SigningKey, tmp_path: Path) -> None:
    """Its public half says nothing of it; a damaged file is told, and replaced by nobody."""
    path = tmp_path / "system" / FOLDER / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.of(tmp_path / "system").public == key.public
    assert key.environment == {"INFERBENCH_WORKLOADS_KEY": key.public} and len(key.public) == 64
    path.write_text("damaged")
    with pytest.raises(StorageError, match="can't be read"):
        SigningKey.of(tmp_path / "system")
    assert path.read_text() == "damaged"


def test_a_public_key_that_is_none_is_told(tmp_path: Path) -> None:
    """Before anything is executed: without a key nothing would be refused."""
    with pytest.raises(InputError, match="is none; it has 64 hex digits"):
        Verifier("abc", "host", tmp_path)
