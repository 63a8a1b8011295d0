"""The page of MLModelScope's ten objectives, beside what shows them."""

from __future__ import annotations

from tests.page_of_commands import sections, unknown
from tests.ten_objectives import PAGE, SHOWN


def test_the_page_of_objectives_has_ten() -> None:
    """Each heading of the page is shown by something, and nothing that is shown is without one."""
    assert list(sections(PAGE)) == list(SHOWN) and len(SHOWN) == 10


def test_each_command_of_the_page_is_one_there_is() -> None:
    """By its name and its options, also of the objectives that `make test` leaves out."""
    assert unknown(PAGE) == []
