"""What a host tells of the runtimes that time bricks on its processor, and what a job asks of it: to be the same.

A graph is made for one processor, instruction set and version of the runtime (``Setting``): on another it is another
graph. Run as a program it writes what this host tells as JSON, in the last line.
"""

from __future__ import annotations

import json
import sys

from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.runtimes import runtime_of, runtimes_of
from inferbench_tasks.contracts.likeness import likeness


def asked_by(setting: Setting) -> str:
    """The ability that the host of a device needs, so that what was cut for this setting can be timed on it.

    Its cores are none of it: each device has some, and a job takes as many as it has threads.
    """
    return likeness(_of(setting.runtime_name), text_of(setting))


def text_of(setting: Setting) -> str:
    """What is compared, as people read it: ``onnxruntime 1.31.1 on Intel Xeon (x86_64-avx512)``."""
    return _text(setting.runtime, setting.processor, setting.instruction_set)


def told_here() -> dict[str, str]:
    """The same of this host, of each runtime of processors that is installed; name -> text."""
    told = {}
    for name in runtimes_of("cpu"):
        try:
            runtime = runtime_of(name)
            told[_of(name)] = _text(runtime.full_name(), runtime.processor(), runtime.instruction_set())
        except ImportError:
            continue  # it is installed once something needs it
        except Exception as error:  # noqa: BLE001 - of a package's runtime: the others are told all the same
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
    return told


def _of(runtime: str) -> str:
    return f"runtime {runtime}"


def _text(full_name: str, processor: str, instruction_set: str) -> str:
    return f"{full_name} on {processor} ({instruction_set})"


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(told_here())}\n")
