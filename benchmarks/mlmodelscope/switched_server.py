"""Our server, whose recorder of traced requests is taken away and given back by signals while it is up.

    python -m benchmarks.mlmodelscope.switched_server --config FILE

So what a recorder costs is seen within one process. Between two processes of the same server lie several percent of
difference that have other reasons, as where their memory lies, and that last as long as they live.

Without it a server does what one does that never had any: at each request it looks whether there is one. Which of both
holds stands in the file ``recorder.txt`` beside the server's address, written once it holds. What was recorded is
written at the end if the server has its recorder then.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.main import main
from inferbench_tasks.servers.model import ServedModel

#: Whether the server is to have its recorder -> the signal that makes it so.
SIGNALS = {True: signal.SIGUSR1, False: signal.SIGUSR2}
STATE = "recorder.txt"


class Switched(ServedModel):
    """The served model, with the recorder that its configuration asks for, at first."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config)
        self._recorder = self.recorder
        self._state = Path(config.address_path).with_name(STATE)
        self._switch(SIGNALS[True])
        for number in SIGNALS.values():
            signal.signal(number, self._switch)

    def _switch(self, number: int, frame: object = None) -> None:
        on = number == SIGNALS[True]
        self.recorder = self._recorder if on else None
        self._state.write_text(str(on))


if __name__ == "__main__":
    sys.exit(main(Switched))
