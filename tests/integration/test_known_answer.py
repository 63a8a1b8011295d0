"""What a model is known to say, against what a server says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import ServerError
from inferbench_tasks.servers.llm_stand_in.answer import text_of
from inferbench_tasks.stages import known_answer
from inferbench_tasks.stages.known_answer import Known, check_known_answer
from inferbench_tasks.submission.schema import LoadSpec
from tests.llm_stand_in import stand_in

pytestmark = pytest.mark.integration


def test_other_words_than_the_known_ones_are_a_wrong_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in says its sixteen words to whatever it is asked; a model that nobody knows is asked nothing."""
    load = LoadSpec.model_validate(
        {"protocol": "openai", "arrivals": {"kind": "constant", "rate_rps": 1}, "shards": 2}
    )
    right = Known("say it", text_of(0, 16).strip())
    monkeypatch.setattr(known_answer, "KNOWN", {"a": right, "b": Known("say it", "words")})
    with stand_in(tmp_path) as server:
        endpoint = Endpoint(
            protocol="openai", host="127.0.0.1", port=server.port, model_name="stand-in:ttft_ms=1,gap_ms=0.1"
        )
        for number, digest in enumerate(("a", "c")):
            check_known_answer(digest, load, endpoint, tmp_path / str(number), tmp_path)
        with pytest.raises(ServerError, match="to 'say it', and as recorded 'words'"):
            check_known_answer("b", load, endpoint, tmp_path / "b", tmp_path)
        assert len(server.log()) == 2
    asked = json.loads((tmp_path / "0" / "prompt.jsonl").read_text())
    assert asked == {"prompt": "say it"}
