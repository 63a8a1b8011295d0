"""What the stimulus certificate allows; data, and stated with every result."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Ratio = Annotated[float, Field(ge=0, le=1)]
_Ms = Annotated[float, Field(gt=0)]


class Thresholds(BaseModel):
    """Limits on the sender's own faults.

    Where a limit depends on what is measured, it is the larger of an absolute one and a share of the
    latency: one ms of lateness spoils the figures of a server that answers in one ms, and is nothing to
    one that takes a second. The absolute parts are several times what timers do on a busy two-core
    machine (median 0.1 ms, p99 2-5 ms, worst below 20 ms), so that plain scheduling noise passes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    #: Median lateness: above it the whole schedule is shifted, not only its worst moments.
    lateness_p50_ms: _Ms = 1.0
    lateness_p50_latency_ratio: _Ratio = 0.1
    #: p99 of the lateness, against the median latency from the send.
    lateness_p99_ms: _Ms = 10.0
    lateness_p99_latency_ratio: _Ratio = 0.25
    #: The worst lateness, and the longest time that a sender's loop was held up. Percentiles don't see a
    #: single stop of the sender in a long run, and its burst afterwards is no traffic that was asked for.
    #: Not relative: nothing but a stopped or starved client holds up a loop for this long.
    stall_ms: _Ms = 100.0
    #: How much of a reported percentile may be the sender's lateness: percentile from the intended moment
    #: minus percentile from the send. Wider than for the p99 of the lateness, for it reaches out to p99.9.
    client_share_ms: _Ms = 20.0
    client_share_ratio: _Ratio = 0.25
    #: How much of a reported mean or percentile may be the client's: what it loses when lateness and the times at
    #: which the sender was held up are taken out. Above it the figure is withheld: the client made it. The absolute
    #: part is what timers and the scheduler of a busy machine take whatever the sender does.
    percentile_share_ms: _Ms = 1.0
    percentile_share_ratio: _Ratio = 0.5
    #: The same for the median: above it the client made the typical request, and the run is invalid.
    percentile_share_p50_ms: _Ms = 0.5
    percentile_share_p50_ratio: _Ratio = 0.25
    #: The absolute parts of both are no more than this share of what the figure would be without the client: a server
    #: that answers in 0.1 ms is not shown with 0.6.
    percentile_share_most_ratio: _Ratio = 1.0
    #: The sum of the times of 5 ms and more at which a sender was held up, as a share of the window. A closed loop does
    #: not ask meanwhile, so that its throughput is too low by as much; in an open loop the requests are there all the
    #: same, and what is wrong with their latencies is withheld.
    stalled_ratio: _Ratio = 0.1
    stalled_ratio_open: _Ratio = 0.25
    #: Gaps between requests: largest difference between the distributions of planned and actual gaps
    #: (Kolmogorov-Smirnov), where differences below the slack don't count (see ``pacing.gap_distance``). The
    #: absolute slack is a little more than a time slice of the scheduler (4 ms), by which a busy machine
    #: delays single requests whatever the sender does.
    gap_distance: _Ratio = 0.05
    gap_slack_ms: _Ms = 5.0
    gap_slack_latency_ratio: _Ratio = 0.1
    #: Requests sent within the window against those planned for it.
    rate_error_ratio: _Ratio = 0.01
    #: Closed loop: users in flight or thinking against the concurrency asked for. Above it the client's
    #: own pauses understate the throughput by as much.
    in_flight_error_ratio: _Ratio = 0.1
    littles_law_error_ratio: _Ratio = 0.1
    #: CPU time of the busiest sender, in cores; a loop that is busier than this queues its own work.
    client_cpu_ratio: _Ratio = 0.85
    #: Chunks of streams that the kernel stamped: how long they waited to be read, p99. The stamps are right all the
    #: same, but what waits together is read together and has one moment. The share is of what is asked of the first
    #: token.
    stamp_delay_ms: _Ms = 5.0
    stamp_delay_ttft_ratio: _Ratio = 0.05
    #: By how much somebody may have set the system's time during such a load.
    clock_step_ms: _Ms = 0.1
    #: Tokens by which the server's counts of the prompts differ from those of the model's tokenizer, and its counts of
    #: the answers from those of their text, as shares of what the server counted. Wider for answers: a model may say a
    #: word in other pieces than a tokenizer would cut it into.
    prompt_tokens_error_ratio: _Ratio = 0.01
    answer_tokens_error_ratio: _Ratio = 0.1
    #: Requests that were never sent.
    dropped_ratio: _Ratio = 0.001
    #: Failed requests. Latencies are of the good answers only: beyond 1% their p99 isn't that of the requests.
    error_ratio: _Ratio = 0.01

    def most_late_p50_ms(self, p50_ms: float) -> float:
        """How late half of the requests may leave, where the median latency from the send is that."""
        return max(self.lateness_p50_ms, self.lateness_p50_latency_ratio * p50_ms)

    def most_late_p99_ms(self, p50_ms: float) -> float:
        """How late all but 1% of the requests may leave, where the median latency from the send is that."""
        return max(self.lateness_p99_ms, self.lateness_p99_latency_ratio * p50_ms)
