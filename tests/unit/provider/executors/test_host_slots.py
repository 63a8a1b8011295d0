"""The host workers get the most urgent tasks, not all of them."""

from __future__ import annotations

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.executors.host_slots import DEFAULT_HOST_SLOTS, HOST_SLOTS, HostSlots


def test_no_more_than_its_slots() -> None:
    """What does not fit waits until something that was sent has ended."""
    slots = HostSlots()
    sent = set(range(DEFAULT_HOST_SLOTS))
    assert all(slots.take(key) for key in sent)
    assert not slots.take("late")
    slots.ended(sent - {0})
    assert slots.take("late")
    assert not slots.take("later")


def test_as_many_as_the_team_has_workers_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is a setting; what is none of it is refused with its name."""
    monkeypatch.setenv(HOST_SLOTS, "1")
    slots = HostSlots()
    assert slots.take("a")
    assert not slots.take("b")
    for text in ("0", "-1", "many"):
        monkeypatch.setenv(HOST_SLOTS, text)
        with pytest.raises(InputError, match=HOST_SLOTS):
            HostSlots()
