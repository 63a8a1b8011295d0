"""What ``inferbench load run`` prints for people."""

from __future__ import annotations

from typing import Any

import typer

from inferbench_tasks.cli.links import row
from inferbench_tasks.contracts.link import LinkAround
from inferbench_tasks.output import OutputFormat, emit, say

_PERCENTILES = ("mean", "p50", "p90", "p95", "p99", "p999", "max")
#: A distribution of streamed tokens -> how it stands in the table.
_TIMES = {
    "ttft_ms": "ms to the first token, from the intended moment",
    "ttft_from_send_ms": "ms to the first token, from the send",
    "ttft_output_ms": "ms to the first token that is no reasoning",
    "latency_ms": "ms to the last token, from the intended moment",
    "tpot_ms": "ms per token after the first chunk",
    "gap_ms": "ms between chunks",
    "stall_ms": "ms, longest between two chunks of a request",
    "server_queue_ms": "ms in the server's queue, by its own word",
    "server_prompt_ms": "ms to the first token in a slot, by the server's own word",
    "ttft_beyond_server_ms": "ms to the first token beyond the server's word",
    "server_tpot_ms": "ms per token after the first, by the server's own word",
    "tpot_beyond_server_ms": "ms per token beyond the server's word",
    "user_tokens_per_s": "tokens/s that a user sees",
}
_TOTALS = (
    "output_tokens_per_s", "input_tokens_per_s", "tokens_per_chunk", "prompt_tokens_mean", "output_tokens_mean",
    "good_ratio", "goodput_rps", "good_tokens_per_s", "cached_ratio",
)  # fmt: skip


def print_result(result: Any) -> None:
    """The figures, the certificate and where the records are."""
    document = result.document()
    summary = document["summary"]
    rows = [
        {
            "latency": label,
            **{name: summary[key].get(name) for name in _PERCENTILES},
        }
        for label, key in (
            ("ms from the intended moment", "e2e_latency_ms"),
            ("ms from the send", "send_latency_ms"),
            ("us of lateness", "lateness_us"),
        )
        if summary
    ]
    emit(rows, OutputFormat.table)
    if summary:
        emit(
            [
                {
                    key: summary[key]
                    for key in ("requests", "ok", "offered_rps", "throughput_rps", "in_flight_mean")
                }
            ],
            OutputFormat.table,
        )
        if tokens := summary.get("tokens"):
            _print_tokens(tokens)
        if summary["errors"]:
            emit(
                [{"error": kind, "count": count} for kind, count in summary["errors"].items()],
                OutputFormat.table,
            )
    certificate = document["certificate"]
    if certificate:
        emit(
            [
                {
                    "check": c["name"],
                    "value": c["value"],
                    "limit": c["limit"],
                    "unit": c["unit"],
                    "ok": c["ok"],
                }
                for c in certificate["checks"]
            ],
            OutputFormat.table,
        )
        said = result.outcome.mlperf.words() if result.outcome.mlperf else None
        for name, reason in certificate["withheld"].get("e2e_latency_ms", {}).items():
            say(f"{name} is withheld: {reason}")
        for warning in certificate["warnings"]:
            if warning != said:  # told below
                say(f"warning: {warning}")
        typer.echo(f"steady state {certificate['figures']['steady_state']}")
    if result.link:
        _print_link(result.link)
    if result.outcome.mlperf:
        typer.echo(f"loadgen      {result.outcome.mlperf.words()}")
        for log in result.outcome.mlperf.logs:
            typer.echo(f"             {log}")
    typer.echo(f"certificate  {result.stimulus}")
    if result.stimulus.valid:
        typer.echo(f"verdict      {document['verdict']}")
    typer.echo(f"samples      {document['samples_path']}")


def _print_link(link: LinkAround) -> None:
    measured = (("before", link.before), ("after", link.after))
    emit([{"link": when, **row(one)} for when, one in measured if one], OutputFormat.table)


def _print_tokens(tokens: dict[str, Any]) -> None:
    rows = [
        {"tokens": words, **{name: tokens[key].get(name) for name in _PERCENTILES}}
        for key, words in _TIMES.items()
        if tokens[key]
    ]
    emit(rows, OutputFormat.table)
    emit([{name: tokens[name] for name in _TOTALS if tokens[name] is not None}], OutputFormat.table)
