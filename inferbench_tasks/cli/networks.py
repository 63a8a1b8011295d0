"""``inferbench networks``: the emulated networks, and whether they do here what they say."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from inferbench_tasks.networks.network import CUSTOM, LAN, find_network, networks
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

app = typer.Typer(invoke_without_command=True)

#: Checked beside the rows where nothing is named: every figure at once.
EXAMPLE = f"{CUSTOM}latency_ms=20,jitter_ms=2,up_mbit_s=16,down_mbit_s=24,loss_ratio=0.02"


@app.callback()
def listing(ctx: typer.Context, output: OutputFormat = OUTPUT) -> None:
    """List the networks with their figures."""
    if ctx.invoked_subcommand is None:
        emit(
            [{"name": LAN, "source": "the network as it is"}, *(n.model_dump() for n in networks().values())],
            output,
        )


@app.command()
def check(
    names: list[str] = typer.Argument(
        None, metavar="[NAME]...", help=f"Networks; all, and {EXAMPLE}, without."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Measure each network as a load would meet it: asked for against measured, within 10%.

    Exit code 0 only if every figure is met. Pings are sent with real-time priority where that is permitted;
    elsewhere run it on a machine that does nothing else.
    """
    from inferbench_tasks.networks.selftest import self_test
    from inferbench_tasks.timing.realtime import become_realtime, realtime_problem

    if problem := realtime_problem():
        say(f"What else runs here may show in the figures: {problem}")
    else:
        become_realtime()  # pings must not wait for a core: the network is to be measured, not the machine
    rows = []
    for name in names or [LAN, *networks(), EXAMPLE]:
        network = find_network(name)
        with tempfile.TemporaryDirectory(prefix="inferbench-network-") as folder:
            outcome = self_test(network, Path(folder))
        by = outcome["emulation"] or "nothing"
        label = name.partition(":")[0]
        rows += [{"network": label, "by": by, **figure} for figure in outcome["figures"]]
        if reason := outcome.get("not_netem"):
            say(
                f"{label}: by the proxy, since {reason}; the proxy's own {outcome['own_delay_ms']:.3f} ms are taken off"
            )
    emit(rows, output)
    if not all(row["met"] for row in rows):
        raise typer.Exit(1)
