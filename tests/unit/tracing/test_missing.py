"""What a trace says to be missing of it."""

from __future__ import annotations

from inferbench_tasks.tracing.missing import in_no_layer, missing_in_words, samplings

LOSSY = {"runs": 30, "left_out": 2, "dropped": 0, "lost": 1_512}


def test_all_servers_are_added_up() -> None:
    """None where no server was sampled, which is not the same as one that lost nothing. A source that keeps all it gets
    does not say what it dropped."""
    assert samplings([]) is None
    assert samplings([LOSSY | {"dropped": 4}, {"runs": 30, "left_out": 0, "lost": 0}]) == {
        "runs": 60, "left_out": 2, "dropped": 4, "lost": 1_512,
    }  # fmt: skip


def test_what_is_missing_is_said_and_nothing_of_a_whole_trace() -> None:
    """How many runs, of how many, and how many samples where the kernel told; runs of which the instruments told
    nothing, whose reasons differ, and none is made up."""
    assert missing_in_words({}) == missing_in_words({"lost": 0, "sampling": LOSSY | {"left_out": 0}}) == ""
    assert missing_in_words({"lost": 0, "sampling": LOSSY}) == (
        "2 of 30 sampled runs lost samples, 1,512 that the kernel told of: they are in no share of what layers ran."
    )
    assert missing_in_words({"unseen": "killed"}) == "Monitors did not see all of it: killed."
    untold = missing_in_words({"lost": 3, "sampling": LOSSY | {"lost": 0}})
    assert untold.startswith(
        "The server's instruments told nothing of 3 runs or requests. 2 of 30 sampled runs"
    )
    assert "sampled runs lost samples: they" in untold and "bound" not in untold


def test_runs_that_we_dropped_are_not_said_to_have_lost_anything() -> None:
    """They were sampled as a whole, and there was no room for them: words and a figure of their own."""
    sampling = {"runs": 30, "left_out": 0, "dropped": 12, "lost": 0}
    assert missing_in_words({"lost": 0, "sampling": sampling}) == (
        "Of 12 of 30 sampled runs the server dropped the samples, having no room for so many: they are in no share of "
        "what layers ran."
    )


def test_a_level_that_is_not_told_is_said() -> None:
    """By the first line of its reason: a server's log follows it."""
    assert missing_in_words({"untold": {"library": "no samples.\nits log"}}) == (
        "Its level library is not told: no samples."
    )


def test_what_is_in_no_layer_is_said() -> None:
    """Primitives of all servers together, with their time: it is in no kernel's."""
    assert in_no_layer([]) is None
    outside = in_no_layer([{"primitives": 30, "ns": 1_250_000}, {"primitives": 2, "ns": 250_000}])
    assert outside == {"primitives": 32, "ns": 1_500_000}
    assert missing_in_words({"lost": 0, "outside": outside}) == (
        "oneDNN ran 32 primitives, 1.5 ms in all, in no operator that PyTorch told of: they are in no layer and are no "
        "kernels."
    )


def test_what_a_gpu_did_for_no_layer_is_said_apart() -> None:
    """A CPU's primitives and a GPU's kernels are other things, and each has its own number."""
    primitives, works = (
        {"primitives": 2, "ns": 250_000},
        {"primitives": 0, "ns": 0, "on_gpu": 3, "on_gpu_ns": 5_000},
    )
    assert in_no_layer([primitives, works]) == {
        "primitives": 2,
        "ns": 250_000,
        "on_gpu": 3,
        "on_gpu_ns": 5_000,
    }
    assert missing_in_words({"outside": in_no_layer([works])}) == (
        "The GPU ran 3 kernels, copies and sets of memory, 0.005 ms in all, for no operator that the runtime told of: "
        "they are in no layer, and are none of its kernels."
    )


def test_a_share_of_a_load_says_what_monitors_did_not_see() -> None:
    """What the server kept of it is told with its requests."""
    assert missing_in_words({"one_in": 20, "lost": 3, "unseen": "killed"}) == (
        "Monitors did not see all of it: killed."
    )


def test_why_runs_are_lost_is_said_where_it_is_known() -> None:
    """One reason for all of a kind."""
    assert missing_in_words({"lost": 3, "why_lost": ["the profile has no kernel"]}) == (
        "The server's instruments told nothing of 3 runs or requests: the profile has no kernel."
    )
