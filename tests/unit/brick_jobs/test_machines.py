"""Which data directories are of one machine."""

from __future__ import annotations

from inferbench_tasks.brick_jobs.machines import Machines, together


def test_data_directories_that_were_on_one_kernel_are_of_one_machine() -> None:
    """Whichever kernels each was on since, and over a third one; who told of no kernel is by itself."""
    told = [("d", ["9"]), ("b", ["1"]), ("c", ["2"]), ("a", ["1", "2"]), ("e", []), ("f", [])]
    assert together(told) == {"a": "a", "b": "a", "c": "a", "d": "d", "e": "e", "f": "f"}
    machines = Machines(together(told))
    assert machines.homes("c") == {"a", "b", "c"} and machines.homes("e") == {"e"}


def test_who_never_told_of_itself_is_a_machine_of_its_own() -> None:
    """And what names no host is of none, unless that setting's is known."""
    machines = Machines({"a": "a"}, {"a": "host-a"}, {"s": "a"})
    assert machines.of("x") == "x" and machines.homes("x") == {"x"} and machines.of("") == ""
    assert machines.home_of({"home": "x"}, "s") == "x" and machines.host_of({"home": "x"}, "s") == ""
    assert machines.home_of({}, "s") == "a" and machines.host_of({"home": ""}, "s") == "host-a"
    assert machines.home_of({}, "t") == machines.host_of({}, "t") == ""
