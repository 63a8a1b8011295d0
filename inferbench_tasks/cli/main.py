"""The command line: ``inferbench``. One file per subcommand, imported when it is called."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from inferbench_tasks import private, settings
from inferbench_tasks.errors import InferBenchError

#: Command -> (help, module). The help stands here so that ``--help`` imports none of them.
COMMANDS = {
    "validate": ("Check submissions: every error at once, with file, line and field.", "validate"),
    "plan": ("Show what a submission would do: its jobs and their graph; runs nothing.", "plan"),
    "run": ("Run a submission on this machine, from YAML to report.", "run"),
    "stage": ("Run one stage by itself, on JSON input.", "stage"),
    "results": ("List, show, export and compare results.", "results"),
    "training": ("Results of training runs: list, show, compare, diagnose, predict, import.", "training"),
    "trace": (
        "Where the time of requests goes, down to the layers: run, list, show, compare, export, import.",
        "trace",
    ),
    "evaluate": ("Are a model's answers right? Accuracy on a data set, beside its latency.", "evaluate"),
    "evaluations": ("Evaluated runs: measures beside speed, samples, two of them in pairs.", "evaluations"),
    "datasets": ("The data sets that models are evaluated on: list, show, fetch, check.", "datasets"),
    "systems": (
        "Models by system: accuracy, latency, best throughput, memory, energy, cost, with ranks.",
        "systems",
    ),
    "stack": (
        "Models across stacks, versions or systems, layer by layer: what makes the difference.",
        "stack",
    ),
    "replay": ("Run a recorded run again; say what differs and whether the figures agree.", "replay"),
    "leaderboard": ("Valid runs by any metric, with ties and confidence.", "leaderboard"),
    "recommend": ("The top three configurations under an objective, from the runs in PerfDB.", "recommend"),
    "speedup": ("How much more each device serves within a reference's latency.", "speedup"),
    "costs": ("The cost of 1,000 samples by provider and instance, measured and predicted.", "costs"),
    "paper": ("Run the InferBench paper's figures, sized for this machine.", "paper"),
    "report": ("Make the HTML report of an invocation again.", "report"),
    "regress": ("Find regressions: nights of baseline against candidate.", "regress"),
    "perfdb": ("Start, stop and inspect the performance database.", "perfdb"),
    "backends": ("The known serving backends, plugins included.", "backends"),
    "formats": ("The known model formats and what converts to what.", "formats"),
    "arrivals": ("The known arrival processes.", "arrivals"),
    "metrics": ("The known metrics with units and formulas.", "metrics"),
    "networks": ("The emulated networks; check that they do what they say.", "networks"),
    "artifacts": ("What travels between hosts: list, show, put, gc.", "artifacts"),
    "models": ("The model repository: register, update, search, show, delete.", "models"),
    "manifests": (
        "Models, frameworks, data sets, scenarios, stacks by version: list, show, add, lock, diff.",
        "manifests",
    ),
    "bricks": ("What models are made of, and their latency from its parts: decompose, predict.", "bricks"),
    "load": ("Load any server: run, calibrate.", "load"),
    "up": ("Start the whole system on this machine: Airflow, broker, PerfDB, workers.", "up"),
    "login": ("The URL of the local system and its logins, for its owner.", "login"),
    "submit": ("Run a submission on a running system; --wait shows its progress.", "submit"),
    "status": ("Devices, leases, queues, and why each job waits.", "status"),
    "nodes": ("Hosts: versions, machine, links, clock against the leader's, cache, devices.", "nodes"),
    "links": ("The network between two hosts, measured: round trips, rates, clocks.", "links"),
    "cancel": ("End a submission on a running system: one's own, or as admin any.", "cancel"),
    "clean": ("Remove old files of runs, caches, submissions and logs; results stay.", "clean"),
    "doctor": ("Is this installation closed to who should not get in? Exit 1 on a finding.", "doctor"),
    "worker": ("Serve devices of this machine, until it is stopped; --drain ends it with its job.", "worker"),
    "tokens": ("By which workers of other hosts join: create, list, revoke.", "tokens"),
    "down": ("End the local system.", "down"),
    "simulate": ("Try scheduling policies on a trace.", "simulate"),
}


class LazyGroup(TyperGroup):
    """Imports a subcommand's module when that subcommand is called or asked for its help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        app = importlib.import_module(f"inferbench_tasks.cli.{COMMANDS[cmd_name][1]}").app
        # Help is plain text: as markup, "[http|grpc]://host" would lose its brackets or be no help at all.
        app.rich_markup_mode = None
        app._add_completion = False
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (help_text, _) in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"No such command {args[0]!r}; known: {', '.join(COMMANDS)}.")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Benchmark deep-learning inference serving: from a YAML of a few lines to a report and a "
    "recommendation.\n\nExit codes: 0 ok, 1 the run failed or is not valid (disturbed: with --strict), 2 bad input.",
)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(version("inferbench"))
        raise typer.Exit


@app.callback()
def root(
    data_dir: str | None = typer.Option(
        None, "--data-dir", metavar="DIR", help=f"Where everything is kept [{settings.DATA_DIR}]."
    ),
    show_version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Settings that hold for every command."""
    if data_dir:
        os.environ[settings.DATA_DIR] = os.path.abspath(os.path.expanduser(data_dir))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; the only place where an error becomes an exit code."""
    # The interpreter would look once more through all that was imported as it ends: a quarter of a second of a core.
    atexit.register(gc.freeze)
    command: Any = typer.main.get_command(app)
    mask = os.umask(private.UMASK)  # what is measured, stored and exported is its user's alone
    try:
        command(args=arguments, prog_name="inferbench")
    except InferBenchError as error:
        from inferbench_tasks.output import say

        say(str(error))  # it may quote a file of a stranger, which must not steer the terminal
        sys.exit(error.exit_code)
    finally:
        os.umask(mask)


if __name__ == "__main__":
    main()
