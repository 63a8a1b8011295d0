"""The bar of commands that time bricks."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


def progress() -> Progress:
    """What a command that measures shows while it does; nothing where nobody looks."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), console=console,
        transient=True, disable=not console.is_terminal,
    )  # fmt: skip
