"""Times of streamed tokens that the client or the load's length made are withheld."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.evidence import ShardUsage
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.token_share import withhold_all_times, withhold_clients_times
from inferbench_tasks.loadgen.token_summary import Each, summarise_tokens
from tests.unit.loadgen.streams_by_hand import MS, figures, stream, tokens_of


def test_times_that_the_client_made_are_withheld() -> None:
    """Requests that left 5 ms late: where that is most of the time to the first token, it is not told."""
    tokens = tokens_of(*(stream([6, 60], 2) for _ in range(20)), intended_s=list(np.linspace(11, 19, 20)))
    summary = summarise_tokens(tokens, Each())
    usage = ShardUsage(shard=0, cpu_s=1.0, wall_s=10.0, max_stall_ns=0, stalls_ns=(), stalled_ns=0)
    withhold_clients_times(summary, tokens, (usage,), Thresholds(), paced=True)
    assert summary["ttft_ms"]["p50"] is None and "client's own" in summary["ttft_ms"]["withheld"]["p50"]
    assert summary["ttft_ms"]["ci95"]["p50"] is None


def test_times_between_chunks_that_the_client_made_are_withheld() -> None:
    """A sender that was held up for 80 ms of a gap of 100 stamped the later chunk late: not the server's stall."""
    tokens = tokens_of(*(stream([50, 150], 2) for _ in range(20)), intended_s=list(np.linspace(11, 19, 20)))
    summary = summarise_tokens(tokens, Each())
    assert summary["stall_ms"]["p50"] == pytest.approx(100)
    held = tuple((int(moment) - 80 * MS, int(moment)) for moment in tokens.last_token_ns)
    usage = ShardUsage(
        shard=0, cpu_s=1.0, wall_s=10.0, max_stall_ns=80 * MS, stalls_ns=held, stalled_ns=20 * 80 * MS
    )
    withhold_clients_times(summary, tokens, (usage,), Thresholds(), paced=True)
    for name in ("gap_ms", "itl_ms", "stall_ms", "tpot_ms", "user_tokens_per_s"):
        assert summary[name]["p50"] is None and summary[name]["withheld"]["p50"], name
    assert summary["ttft_ms"]["p50"] == pytest.approx(50)  # came before


@pytest.mark.parametrize(
    ("first", "last", "withheld"),
    [
        ([50], [150], set()),
        ([50], [150, 150], {"stall_ms"}),
        ([100, 100], [150], {"ttft_ms", "ttft_from_send_ms"}),
    ],
)
def test_a_stamp_of_the_kernel_is_late_only_where_another_event_came_in_the_same_read(
    first: list[float], last: list[float], withheld: set[str]
) -> None:
    """The sender was held up for 80 ms before each read: alone a chunk has its own moment, else the last one's."""
    streams = [stream([*first, *last], len(first) + len(last), waited_us=1) for _ in range(20)]
    tokens = tokens_of(*streams, intended_s=list(np.linspace(11, 19, 20)))
    summary = summarise_tokens(tokens, Each())
    assert summary["stamp"]["by"] == "kernel" and summary["gaps_by_length"]["counts"]
    ends = [*tokens.first_token_ns.tolist(), *tokens.last_token_ns.tolist()]
    held = tuple(sorted((int(moment) - 80 * MS, int(moment)) for moment in ends))
    usage = ShardUsage(
        shard=0, cpu_s=1.0, wall_s=10.0, max_stall_ns=80 * MS, stalls_ns=held, stalled_ns=40 * 80 * MS
    )
    withhold_clients_times(summary, tokens, (usage,), Thresholds(), paced=True)
    names = (
        "ttft_ms",
        "ttft_from_send_ms",
        "latency_ms",
        "gap_ms",
        "stall_ms",
        "tpot_ms",
        "user_tokens_per_s",
    )
    assert {name for name in names if summary[name].get("withheld", {}).get("p50")} == withheld


def test_a_load_whose_length_makes_its_times_tells_none() -> None:
    """Nor what is good by them; what the server gave in all stays."""
    summary = figures(*(stream([50, 150], 2) for _ in range(20)), each=Each(ttft_ms=500))
    withhold_all_times(summary, "the backlog grew")
    figured = [
        figure for figure in FIGURES.values() if figure.streamed and figure.stored({"tokens": summary})
    ]
    assert {figure.name for figure in figured} == {
        "output_tokens_per_s", "input_tokens_per_s", "total_tokens_per_s", "tokens_per_chunk"
    }  # fmt: skip
    assert summary["goodput_rps"] is None and summary["kept_ratio"] == {"ttft_ms": None}
    assert "the backlog grew" in summary["reasons"]["good_ratio"]
