"""What a trace says to be missing of it."""

from __future__ import annotations

from inferbench_tasks.tracing.missing import missing_in_words, samplings

LOSSY = {"runs": 30, "left_out": 2, "lost": 1_512}


def test_all_servers_are_added_up() -> None:
    """None where no server was sampled, which is not the same as one that lost nothing."""
    assert samplings([]) is None
    assert samplings([LOSSY, {"runs": 30, "left_out": 0, "lost": 0}]) == {
        "runs": 60, "left_out": 2, "lost": 1_512,
    }  # fmt: skip


def test_what_is_missing_is_said_and_nothing_of_a_whole_trace() -> None:
    """How many runs, of how many, and how many samples where the kernel told; runs that the server kept nothing of."""
    assert missing_in_words({}) == missing_in_words({"lost": 0, "sampling": LOSSY | {"left_out": 0}}) == ""
    assert missing_in_words({"lost": 0, "sampling": LOSSY}) == (
        "2 of 30 sampled runs lost samples, 1,512 that the kernel told of: they are in no share of what layers ran."
    )
    assert missing_in_words({"unseen": "killed"}) == "Monitors did not see all of it: killed."
    untold = missing_in_words({"lost": 3, "sampling": LOSSY | {"lost": 0}})
    assert (
        untold.startswith("The server kept nothing of 3 runs") and "sampled runs lost samples: they" in untold
    )
