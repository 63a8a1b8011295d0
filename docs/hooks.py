"""What mkdocs makes from the code: the page of the command line; and links out of ``docs/``."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the generated page."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "reference/cli.md", content=cli_page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """A link to a file of the checkout that is no page becomes its path; one to nowhere is an error."""
    folder = (Path(config["docs_dir"]) / page.file.src_uri).parent

    def outside(match: re.Match[str]) -> str:
        target = (folder / match[2].partition("#")[0]).resolve()
        if target.is_relative_to(config["docs_dir"]):
            return match[0]
        if not target.exists():
            raise ValueError(f"{page.file.src_uri}: the link {match[2]} leads nowhere")
        return f"`{target.relative_to(ROOT)}`"

    return _LINK.sub(outside, markdown)


def cli_page() -> str:
    """Every command with its options, from the commands themselves."""
    import typer

    from inferbench_tasks.cli.main import COMMANDS

    lines = ["# Command line", "", "Results go to stdout (`-o table|json|yaml`), progress to stderr. "
             "Exit codes: 0 ok, 1 a run failed or is not valid, 2 bad input.", ""]  # fmt: skip
    for name, (summary, module) in COMMANDS.items():
        command: Any = typer.main.get_command(importlib.import_module(f"inferbench_tasks.cli.{module}").app)
        lines += [f"## inferbench {name}", "", summary, ""]
        for path, one in _commands(command, f"inferbench {name}"):
            if path != f"inferbench {name}":
                lines += [f"### {path}", ""]
            lines += [_cell(one.help or ""), "", "| option | meaning |", "|---|---|"]
            lines += [_option(parameter) for parameter in one.params if "completion" not in parameter.name]
            lines += [""]
    return "\n".join(lines)


def _commands(command: Any, path: str) -> list[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        return [(path, command)]
    return [found for name, one in inner.items() for found in _commands(one, f"{path} {name}")]


def _option(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in parameter.opts) if parameter.opts else ""
    if parameter.param_type_name == "argument":
        names = f"`{(parameter.metavar or parameter.name).strip('[]')}`"
    return f"| {names} | {_cell(getattr(parameter, 'help', None) or '')} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
