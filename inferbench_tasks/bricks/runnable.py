"""A brick's network as PerfDB has it becomes one that runs: ``python -m inferbench_tasks.bricks.runnable ORDER``.

It was made of a stranger's model, and to read it is to parse it: that happens in the sandbox (``runnable``). It
reads ``{"bare": file, "key": key, "to": file}`` and writes one JSON line, ``{"why": null}``, or why it can't be made.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from inferbench_tasks import sandbox
from inferbench_tasks.bricks.measure.confined import confined
from inferbench_tasks.errors import StageError
from inferbench_tasks.strangers_folder import not_plain


def runnable(content: bytes, key: str, name: str, folder: Path) -> list[Path]:
    """The files of the network with weights that are drawn by its key: ``name``, and its weights beside it where these
    are too many for one file. ``folder``: an empty one. StageError where it can't be made."""
    network, order, made = folder / "bare", folder / "order.json", folder / "made"
    network.write_bytes(content)
    made.mkdir()
    order.write_text(json.dumps({"bare": str(network), "key": key, "to": str(made / name)}))
    reach, errors = sandbox.Reach(reads=(str(network), str(order)), writes=(str(made),)), folder / "log"
    with confined("inferbench_tasks.bricks.runnable", order, reach, made, errors) as process:
        assert process.stdout is not None
        text = process.stdout.read()
    try:
        why = json.loads(text)["why"]
    except (ValueError, KeyError):
        raise StageError(f"the network of {key[:12]} can't be made: its process {process.ended()}") from None
    if why is not None:
        raise StageError(f"the network of {key[:12]} can't be made: {why}")
    if (strange := next(not_plain(made), None)) is not None:
        raise StageError(f"the network of {key[:12]} can't be made: its process left {strange[1]} beside it")
    return sorted(path for path in made.iterdir() if path.name.startswith(name))


def main(path: str) -> int:
    """Make it; see the module."""
    import onnx_ir as ir

    from inferbench_tasks.bricks.bare import with_noise
    from inferbench_tasks.bricks.saving import save_network

    order = json.loads(Path(path).read_text(encoding="utf-8"))
    why = None
    try:
        save_network(with_noise(ir.load(order["bare"]), order["key"]), Path(order["to"]))
    except Exception as error:  # noqa: BLE001 - whatever protobuf and numpy raise of a broken file
        why = f"{type(error).__name__}: {str(error)[:200]}"
    print(json.dumps({"why": why}))  # noqa: T201 - the answer
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
