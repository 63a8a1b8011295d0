"""A command that runs another one by its function names every option: the others' defaults are no values there."""

from __future__ import annotations

import ast
from pathlib import Path

import inferbench_tasks.cli

FOLDER = Path(inferbench_tasks.cli.__file__).parent
_DECLARES = ("typer.Option", "typer.Argument")


def declared(trees: dict[str, ast.Module]) -> dict[tuple[str, str], set[str]]:
    """(module, function) -> its parameters whose default is an option or an argument of the command line."""
    shared = {
        ast.unparse(target)
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(_DECLARES)
        for target in node.targets
    } | {"OUTPUT"}
    found = {}
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and (defaults := node.args.defaults):
                names = [argument.arg for argument in node.args.args][-len(defaults) :]
                texts = map(ast.unparse, defaults)
                found[module, node.name] = {
                    name
                    for name, text in zip(names, texts, strict=True)
                    if text.startswith(_DECLARES) or text in shared
                }
    return found


def test_calls_of_commands_leave_no_option_out() -> None:
    """`inferbench evaluate` once ended in an error of Python's own: it called `run` without an option that was new,
    whose default is typer's description of it."""
    trees = {f"inferbench_tasks.cli.{path.stem}": ast.parse(path.read_text()) for path in FOLDER.glob("*.py")}
    options = declared(trees)
    assert "files_in" in options["inferbench_tasks.cli.run", "run"]
    problems, calls = [], 0
    for module, tree in trees.items():
        known = {name: (module, name) for owner, name in options if owner == module}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                known |= {each.asname or each.name: (node.module or "", each.name) for each in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                wanted = options.get(known.get(node.func.id, ("", "")), set())
                if not wanted:
                    continue
                calls += 1
                given = {keyword.arg for keyword in node.keywords}
                signature = _parameters(trees[known[node.func.id][0]], known[node.func.id][1])
                if missing := wanted - given - set(signature[: len(node.args)]):
                    problems.append(
                        f"{module}:{node.lineno}: {node.func.id} without {', '.join(sorted(missing))}"
                    )
    assert calls and not problems, problems


def _parameters(tree: ast.Module, name: str) -> list[str]:
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    return [argument.arg for argument in function.args.args]
