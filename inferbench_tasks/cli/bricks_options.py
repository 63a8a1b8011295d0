"""What the subcommands of ``inferbench bricks`` have in common: which model, in which sizes, cut how."""

from __future__ import annotations

import typer

GRANULARITY = typer.Option("1", "--granularity", "-G", help="Layers of a brick at most: 1, 2, ... or whole.")
BATCH = typer.Option(1, "--batch-size", "--batch", "-b", min=1, help="Samples at once.")
SHAPE = typer.Option(
    [], "--shape", metavar="INPUT=SIZES", help="An input's sizes without batch: image=3x224x224."
)
FRAMEWORK = typer.Option(None, "--framework", help="torch or tensorflow, of a built-in model that has both.")
