"""Ids of files are dated by the clock that they are given, whatever this host's says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bson import ObjectId

from inferbench_tasks.perfdb.file_ids import least_file_id, new_file_id

#: 1,767,225,600 s since 1970.
AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_id_begins_with_its_second_and_ends_as_no_other() -> None:
    """1,767,225,600 is 0x6955B900; a thousand of one second are a thousand."""
    made = {new_file_id(AT) for _ in range(1000)}
    assert len(made) == 1000 and {str(each)[:8] for each in made} == {"6955b900"}
    assert str(least_file_id(AT)) == "6955b900" + "0" * 16


def test_ids_are_ordered_by_when_storing_began() -> None:
    """A day of 86,400 s: what began a second before its begin is older, what began with it is not."""
    oldest = least_file_id(AT - timedelta(days=1))
    assert new_file_id(AT - timedelta(days=1, seconds=1)) < oldest <= new_file_id(AT - timedelta(days=1))
    assert isinstance(new_file_id(AT), ObjectId) and new_file_id(AT).generation_time == AT
