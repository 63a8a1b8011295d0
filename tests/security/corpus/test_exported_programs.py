"""``.pt2`` files that would run code when PyTorch reads them."""

import json
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.artifacts import exported_program, safe_files
from inferbench_tasks.errors import InputError
from tests.skips import needs

pytestmark = needs("torch")


@cache
def _entries(folder: Path) -> dict[str, bytes]:
    """The entries of an honest program with a free batch."""
    import torch

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.dense = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.einsum("bchw->bc", self.conv(x))
            return self.dense(torch.cat([y, y])).reshape(-1, x.shape[0], 2)

    auto = torch.export.Dim.AUTO
    program = torch.export.export(Net(), (torch.rand(2, 3, 8, 8),), dynamic_shapes=({0: auto, 2: auto},))
    torch.export.save(program, str(folder / "honest.pt2"))
    with zipfile.ZipFile(folder / "honest.pt2") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Entry -> its bytes."""
    return _entries(tmp_path_factory.mktemp("honest"))


def written(path: Path, entries: dict[str, bytes]) -> Path:
    """An archive of these entries."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def changed(entries: dict[str, bytes], change: Callable[[dict[str, Any]], None]) -> dict[str, bytes]:
    """The entries with a changed ``models/*.json``."""
    (name,) = (n for n in entries if "/models/" in n)
    model = json.loads(entries[name])
    change(model)
    return entries | {name: json.dumps(model).encode()}


def _everywhere(value: Any, key: str, text: str) -> int:
    """Puts the text at every such key; how many there were."""
    count = 0
    if isinstance(value, dict):
        for name, part in value.items():
            if name == key and isinstance(part, str):
                value[name], count = text, count + 1
            else:
                count += _everywhere(part, key, text)
    elif isinstance(value, list):
        count += sum(_everywhere(part, key, text) for part in value)
    return count


def test_an_honest_program_passes(honest: dict[str, bytes], tmp_path: Path) -> None:
    """Guards, einsum and expressions of a free batch are what torch.export writes itself."""
    safe_files.check_torch_archive(written(tmp_path / "m.pt2", honest), "pt2")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("expr_str", "__import__('os').system('touch {canary}')"),
        ("expr_str", "open('{canary}', 'w')"),
        ("expr_str", "s0.__class__.__mro__"),
        ("expr_str", "(lambda: open('{canary}', 'w'))()"),
        ("expr_str", "Symbol('s0', positive=open('{canary}', 'w'))"),
        ("expr_str", "Pow(Pow(Integer(9), Integer(8)), Integer(8))"),
        ("expr_str", "9**9**9"),
        ("expr_str", "Symbol(Symbol('__import__'))"),
        ("expr_str", "(" * 300 + "s0" + ")" * 300),
        ("expr_str", "s0+" * 2000 + "s0"),
        ("target", "torch.serialization.os.system"),
        ("target", "torch.load"),
        ("target", "torch.ops.aten.from_file.default"),
        ("target", "torch.ops.load_library"),
        ("target", "_operator.methodcaller"),
        ("name", "x=open('{canary}', 'w')"),
        (
            "in_spec",
            '[1, {{"type": "builtins.dict", "context": "{{\\"__enum__\\": 1}}", "children_spec": []}}]',
        ),
        ("in_spec", '[1, {{"type": "collections.defaultdict", "context": null, "children_spec": []}}]'),
        ("fqn", "x; import os"),
    ],
)
def test_strings_that_the_loader_would_run_are_refused(
    honest: dict[str, bytes], tmp_path: Path, key: str, text: str
) -> None:
    """Each is refused by the file's entry, before PyTorch loads it, and nothing was written."""
    canary = tmp_path / "canary"
    text = text.replace("{canary}", str(canary)).replace("{{", "{").replace("}}", "}")

    def change(model: dict[str, Any]) -> None:
        assert _everywhere(model, key, text)

    path = written(tmp_path / "m.pt2", changed(honest, change))
    with pytest.raises(InputError, match=r"m\.pt2: models/model\.json (has|calls)"):
        safe_files.check_torch_archive(path, "pt2")
    assert not canary.exists()


@pytest.mark.parametrize(
    "guard",
    [
        "__import__('os').system('true')",
        "L['x'].size()[0] == open('canary', 'w')",
        "L['x'].__class__ == 1",
        'L["x"].size()[0] == 1',
        "9**9**9 == 1",
        "1) or print(1",
    ],
)
def test_guards_that_do_more_than_compare_are_refused(
    honest: dict[str, bytes], tmp_path: Path, guard: str
) -> None:
    """Guards are executed as Python: comparisons of sizes only."""
    path = written(tmp_path / "m.pt2", changed(honest, lambda model: model.update(guards_code=[guard])))
    with pytest.raises(InputError, match="models/model.json has"):
        safe_files.check_torch_archive(path, "pt2")


@pytest.mark.parametrize(
    "entry",
    [
        "data/aotinductor/model/x.so",
        "data/aotinductor/model/x.wrapper.cpp",
        "data/constants/custom_obj_0",
        "data/constants/opaque_obj_0",
        "extra/x.py",
        "serialized_exported_program.json",
        "Models/model.json",
    ],
)
def test_unknown_entries_are_refused(honest: dict[str, bytes], tmp_path: Path, entry: str) -> None:
    """Libraries, objects, older forms and a name that differs by case alone."""
    root = next(iter(honest)).split("/")[0]
    path = written(tmp_path / "m.pt2", honest | {f"{root}/{entry}": b"x"})
    with pytest.raises(InputError, match="only plain exported programs|pickled objects"):
        safe_files.check_torch_archive(path, "pt2")


@pytest.mark.parametrize(
    "text",
    ["Symbol('s77', positive=True, integer=True)", "Max(Integer(1), Add(s53, Integer(-2)))", "(s0 + 1)//2",
     "Mod(s0, 8)", "Pow(s0, Integer(2))", "u0 + 3*s1", "Float('0.5', precision=53)", "true"],
)  # fmt: skip
def test_arithmetic_of_shapes_passes(text: str) -> None:
    """The grammar has what torch.export prints."""
    exported_program.check_expression(text)
