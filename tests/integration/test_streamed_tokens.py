"""Streams of tokens over real sockets from a real process, whose own log is what the client is held to.

No moment is compared with a limit in ms: a chunk can't arrive before it was written, and everything else is counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.clients.answers import AnswerCheck
from inferbench_tasks.clients.base import OK, Call, ClientSettings, Payload, Sink, client_factory
from inferbench_tasks.clients.openai_form import (
    NONE,
    StreamTarget,
    StreamText,
    decode_answer,
    encode_request,
    read_stream,
)
from inferbench_tasks.clients.stream_file import KeptStreams
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen import standalone
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.records import codes, read_samples
from inferbench_tasks.loadgen.server_side import SERVER_STREAMS
from inferbench_tasks.loadgen.token_load import TokenOptions, token_figures, words
from inferbench_tasks.loadgen.token_records import CHUNKS, SERVER_TIMES, STREAMS, STREAMS_WRITTEN, read_table
from inferbench_tasks.loadgen.token_summary import Each
from inferbench_tasks.requests.ragged import objects
from tests.llm_stand_in import StandIn, stand_in

pytestmark = pytest.mark.integration
KEY = "sk-test-0123456789"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """One that every test of the module asks for a pace of its own, by the model's name."""
    with stand_in(tmp_path_factory.mktemp("stand-in"), "--pace", "ttft_ms=20,gap_ms=4") as running:
        yield running


class _Ends(Sink):
    """How every call ended."""

    def __init__(self, count: int) -> None:
        self.statuses: dict[int, str] = {}
        self.words: dict[str, str] = {}
        self.over = asyncio.Event()
        self._count = count

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        self.statuses[call.request_id] = status
        if len(self.statuses) == self._count:
            self.over.set()

    def ready(self) -> None:
        """Nothing waits."""

    def again(self, call: Call) -> None:
        raise AssertionError("HTTP/1.1 never hands a call back")

    def unreachable(self, reason: str) -> None:
        raise AssertionError(reason)

    def explain(self, status: str, text: str) -> None:
        self.words.setdefault(status, text)


def exchange(
    server: StandIn,
    client: str,
    models: list[str],
    *,
    tokens: int = 12,
    api: str = "chat",
    patient: bool = True,
) -> tuple[dict[str, str], dict[str, StreamText], _Ends]:
    """Ask every model once, all at the same time: status and stream of each."""
    kept = KeptStreams()
    target = StreamTarget(path="/v1/chat/completions" if api == "chat" else "/v1/completions")
    endpoint = Endpoint(protocol="openai", host="127.0.0.1", port=server.port, model_name="")

    def wire(model: str) -> bytes:
        text = {"messages": [{"role": "user", "content": "a b c"}]} if api == "chat" else {"prompt": "a b c"}
        body = {
            "model": model,
            "stream": True,
            "max_tokens": tokens,
            "stream_options": {"include_usage": True},
            **text,
        }
        return encode_request(endpoint, target, {"request": objects([json.dumps(body).encode()])})

    async def ask() -> _Ends:
        sink = _Ends(len(models))
        settings = ClientSettings(endpoint, connections=len(models), target=target, streams=kept)
        made = client_factory("openai", client)(
            settings, asyncio.get_running_loop(), sink, AnswerCheck(decode_answer)
        )
        await made.open(len(models))
        try:
            for number, model in enumerate(models):
                assert made.send(Call(number, 0, Payload(wire(model), number, 1)))
            await asyncio.wait_for(sink.over.wait(), 60)
        finally:
            await made.close()
        return sink

    sink = asyncio.run(ask())
    streams = {
        model: read_stream(bytes(kept[number].body), tokens)
        for number, model in enumerate(models)
        if number in kept
    }
    return {model: sink.statuses[number] for number, model in enumerate(models)}, streams, sink


FORMS = [
    "line_end=crlf", "line_end=cr", "comments=true", "done=false", "chunked=false", "split=7", "role=false",
    "usage_each=true", "tokens_per_chunk=5", "first_tokens=3", "line_end=crlf,split=1,comments=true,chunked=false",
]  # fmt: skip
#: Fault -> what becomes of it: by the client itself or, of a stream that HTTP ended well, after the load.
FAULTS = {
    "unfinished": "stream_unfinished", "cut": "reset", "error_event": "stream_error", "bad_utf8": "stream_encoding",
    "bad_json": "stream_json", "role_only": "stream_empty", "too_many": "stream_too_many", "low_usage": "stream_usage",
    "plain": "stream_missing", "http_429": "http_4xx", "http_503": "http_5xx", "endless": "stream_too_large",
}  # fmt: skip


@pytest.mark.parametrize("client", ["fast", "reference"])
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_every_form_of_a_stream_says_the_same(server: StandIn, client: str, api: str) -> None:
    """Whatever its line ends, comments, chunks and pieces: twelve tokens, counted by the server too."""
    models = [f"stand-in:ttft_ms=1,gap_ms=0.1,{form}" for form in FORMS]
    statuses, streams, _ = exchange(server, client, models, api=api)
    assert set(statuses.values()) == {OK}
    for stream in streams.values():
        assert stream.problem is None
        assert (stream.output_tokens, stream.prompt_tokens, stream.finish_reason) == (12, 3, "length")
        assert sum(stream.text_bytes) == 12 * 5
        assert "no model" in stream.said[1]
    chunks = {model: stream.chunks for model, stream in streams.items()}
    assert chunks[f"stand-in:ttft_ms=1,gap_ms=0.1,{FORMS[8]}"] == 3  # 5 + 5 + 2
    assert chunks[f"stand-in:ttft_ms=1,gap_ms=0.1,{FORMS[9]}"] == 10  # 3 + 9 x 1


@pytest.mark.parametrize("client", ["fast", "reference"])
def test_every_fault_has_its_name(server: StandIn, client: str) -> None:
    """By both clients the same; none is an answer."""
    models = [f"stand-in:ttft_ms=1,gap_ms=0.1,fault={fault}" for fault in FAULTS]
    statuses, streams, sink = exchange(server, client, models)
    for fault, model in zip(FAULTS, models, strict=True):
        problem = streams[model].problem if statuses[model] == OK else None
        assert (problem[0] if problem else statuses[model]) == FAULTS[fault], fault
    assert "the stand-in was told so" in sink.words["http_4xx"]


def _load(
    server: StandIn, folder: Path, model: str = "stand-in", *, arrivals: str = "poisson:60", **options: Any
) -> tuple[LoadPlan, Outcome, dict[str, Any]]:
    """Load it as ``inferbench load run`` does, without the client's ceiling."""
    tokens = options.pop("tokens", {})
    fields = {"duration_s": 0.7, "warmup_s": 0.1, "timeout_ms": 20_000.0, **options}
    fields["client"] = fields.get("client", "fast")
    lengths = {
        "output_tokens": {"kind": "fixed", "value": 12},
        "input_tokens": {"kind": "fixed", "value": 26},
    }
    asked = standalone.Asked(
        url=server.url, arrivals=arrivals, options=fields, model=model, protocol="openai",
        tokens=TokenOptions(**{**lengths, **tokens}),
    )  # fmt: skip
    plan = standalone.plan(asked, folder)
    outcome = apply_load(plan, folder / "samples.parquet")
    each = asked.tokens.each if asked.tokens else Each()
    return plan, outcome, token_figures(plan, outcome, each)


@pytest.mark.parametrize("client", ["fast", "reference"])
def test_a_loads_records_are_what_the_server_did(server: StandIn, tmp_path: Path, client: str) -> None:
    """Request by request: as many chunks and tokens, none before it was written, all between send and end."""
    before = len(server.log())
    model = "stand-in:ttft_ms=10,gap_ms=3,tokens_per_chunk=4,cached_tokens=5"
    plan, outcome, tokens = _load(server, tmp_path, model, client=client)
    samples = read_samples(outcome.samples_path)
    status, names = codes(samples, "status")
    assert {names[code] for code in status} == {OK}
    # What the server got first was sent first; only requests that overlap by microseconds could change places.
    log = sorted(server.log()[before:], key=lambda entry: entry["chunks"][0][0])
    streams, metadata = read_table(tmp_path / "streams.parquet", STREAMS)
    chunks, _ = read_table(tmp_path / "chunks.parquet", CHUNKS)
    assert metadata["stamp"] == tokens["stamp"]["by"] == ("kernel" if client == "fast" else "read")
    assert len(log) == len(streams["request_id"]) == samples.num_rows
    token = chunks["kind"] != NONE
    assert (np.bincount(chunks["request_id"][token]) == 3).all()
    assert set(streams["output_tokens"]) == {12} and set(streams["cached_tokens"]) == {5}
    assert set(streams["prompt_tokens"]) == {entry["prompt_tokens"] for entry in log} == {20}
    assert set(streams["first_chunk_tokens"]) == {4}
    written = np.array([[moment for moment, _ in entry["chunks"]] for entry in log])
    arrived = chunks["arrival_ns"][token].reshape(-1, 3)
    arrived = arrived[np.argsort(arrived[:, 0])]
    assert (np.sort(arrived, axis=0) >= np.sort(written, axis=0)).all()
    by_id = {row["request_id"]: row for row in samples.to_pylist()}
    for row, last_ns in zip(streams["request_id"].tolist(), streams["last_token_ns"].tolist(), strict=True):
        record = by_id[row]
        assert (
            record["intended_ns"]
            <= record["sent_ns"]
            <= record["first_byte_ns"]
            <= last_ns
            <= record["done_ns"]
        )
    # The server's word went out in the last chunk and stands in its log: the same of each, in its own column.
    told, _ = read_table(tmp_path / "streams.parquet", SERVER_STREAMS)
    columns = {name: told[f"server_{name}"] for name in SERVER_TIMES}
    said = sorted(zip(*(columns[name].tolist() for name in SERVER_TIMES), strict=True))
    assert said == sorted(
        (*(round(entry["timings"][f"{name}_ms"] * 1000) for name in ("queue", "prompt")), 15, 5,
         round(entry["timings"]["predicted_ms"] * 1000), 12, 8)
        for entry in log
    )  # fmt: skip
    assert [entry["timings"]["predicted_ms"] * 1e6 for entry in log] == pytest.approx(
        [entry["chunks"][-1][0] - entry["chunks"][0][0] for entry in log]
    )
    assert tokens["tokens_per_chunk"] == 4.0
    assert tokens["ttft_ms"]["min"] >= 10 and tokens["latency_ms"]["min"] >= 16
    assert any("no model" in word for word in words(plan, tokens))
    assert not list((tmp_path / "load").glob("*.streams"))


def test_a_tokenizer_counts_what_the_server_does_not(server: StandIn, tmp_path: Path) -> None:
    """Words are tokens here, as the stand-in's are: without usage the same figures; with it both are compared."""
    file = tmp_path / "tokenizer.json"
    words_tokenizer(file)
    chosen: dict[str, Any] = {"tokens": {"tokenizer": file}, "arrivals": "closed_loop:2", "max_requests": 20}
    model = "stand-in:ttft_ms=5,gap_ms=1,tokens_per_chunk=4"
    plan, outcome, tokens = _load(server, tmp_path / "none", f"{model},fault=no_usage", **chosen)
    assert tokens["output_tokens_by"] == {"usage": 0, "tokenizer": tokens["requests"], "nobody": 0}
    assert (tokens["tokens_per_chunk"], tokens["output_tokens_mean"]) == (4.0, 12.0)
    assert tokens["tpot_ms"]["count"] > 0 and tokens["output_tokens_per_s"] > 0
    assert tokens["input_tokens_per_s"] is None and "usage" in tokens["reasons"]["input_tokens_per_s"]
    assert any("told no `usage`" in word for word in words(plan, tokens))
    assert outcome.certificate(plan).figures["answer_tokens_error_ratio"] is None
    streams, _ = read_table(tmp_path / "none" / "streams.parquet", STREAMS_WRITTEN)
    assert set(streams["output_tokens"]) == {-1} and set(streams["text_tokens"]) == {12}
    plan, outcome, tokens = _load(server, tmp_path / "told", model, **chosen)
    assert tokens["output_tokens_by"] == {"usage": tokens["requests"], "tokenizer": 0, "nobody": 0}
    figures = outcome.certificate(plan).figures
    assert (figures["prompt_tokens_error_ratio"], figures["answer_tokens_error_ratio"]) == (0.0, 0.0)
    assert set(read_inputs(plan.inputs_path)["text_tokens"]) == {26}
    _, _, tokens = _load(server, tmp_path / "both", f"{model},fault=no_usage", **{**chosen, "tokens": {}})
    assert tokens["output_tokens_per_s"] is None and tokens["tpot_ms"]["count"] == 0
    with pytest.raises(InputError, match="--tokenizer: .*missing.json can't be read"):
        _load(server, tmp_path / "no", model, tokens={"tokenizer": tmp_path / "missing.json"})


def words_tokenizer(path: Path) -> None:
    """A ``tokenizer.json`` for which what stands between blanks is a token."""
    from tokenizers import Tokenizer as Made
    from tokenizers import models, pre_tokenizers

    tokenizer: Any = Made(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))


def test_bad_streams_are_failures_of_the_load(server: StandIn, tmp_path: Path) -> None:
    """In the records, by name, with the first words; none of them gives a figure."""
    _, outcome, tokens = _load(server, tmp_path, "stand-in:ttft_ms=1,gap_ms=0.1,fault=bad_json")
    status, names = codes(outcome.table(), "status")
    assert Counter(names[code] for code in status) == {"stream_json": len(status)}
    assert outcome.applied.explanations["stream_json"].startswith("an event is not JSON")
    assert tokens["ttft_ms"]["count"] == 0 and tokens["good"] == 0 and tokens["good_ratio"] == 0.0


def test_a_server_that_keeps_its_stream_back_is_told(server: StandIn, tmp_path: Path) -> None:
    """Users who wait for their answers: there is no time per token, and the reason stands beside it."""
    plan, _, tokens = _load(
        server,
        tmp_path,
        "stand-in:ttft_ms=5,gap_ms=0.5,fault=buffered",
        arrivals="closed_loop:2",
        max_requests=20,
    )
    assert tokens["buffered"] == tokens["ttft_ms"]["count"] > 0
    assert tokens["tpot_ms"]["count"] == 0 and tokens["user_tokens_per_s"]["count"] == 0
    assert any(word.startswith("tpot_ms:") and "came at once" in word for word in words(plan, tokens))


@pytest.mark.parametrize("client", ["fast", "reference"])
def test_a_server_that_closes_connections_without_a_word_loses_no_request(
    server: StandIn, tmp_path: Path, client: str
) -> None:
    """As llama.cpp's does after each stream, though it promises to keep them: that is told once, and no failure."""
    model = "stand-in:ttft_ms=5,gap_ms=0.5,keep=false"
    _, outcome, tokens = _load(
        server, tmp_path, model, arrivals="closed_loop:2", max_requests=40, client=client
    )
    status, names = codes(outcome.table(), "status")
    assert Counter(names[code] for code in status) == {OK: len(status)}
    assert len(status) > 4 and tokens["ttft_ms"]["count"] > 0
    assert set(outcome.applied.explanations) <= {"kept_connection"}


def test_the_key_is_sent_and_stands_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that wants it answers with it and repeats a wrong one; no file of either load has it."""
    monkeypatch.setenv("STAND_IN_KEY", KEY)
    monkeypatch.setenv("WRONG_KEY", KEY + "-wrong")
    with stand_in(tmp_path, "--pace", "ttft_ms=1,gap_ms=0.1", "--api-key-env", "STAND_IN_KEY") as closed:
        _, _, tokens = _load(closed, tmp_path / "right", tokens={"api_key_env": "STAND_IN_KEY"})
        assert tokens["ttft_ms"]["count"] > 0
        plan, outcome, _ = _load(closed, tmp_path / "wrong", tokens={"api_key_env": "WRONG_KEY"})
        assert "Incorrect API key provided: ***" in outcome.applied.explanations["http_4xx"]
        with pytest.raises(InputError, match=r"\*\*\*"):
            standalone.check_target(plan)
        with pytest.raises(InputError, match="API key provided: ") as raised:
            _load(closed, tmp_path / "list", model="", tokens={"api_key_env": "WRONG_KEY"})
        assert KEY not in str(raised.value)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("client", ["fast", "reference"])
def test_https_is_spoken_to_who_has_the_right_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    """One that the system trusts (here by SSL_CERT_FILE) and that is of the host; to another nothing is sent."""
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(_certificate("127.0.0.1"))
    monkeypatch.setenv("STAND_IN_KEY", KEY)
    options = ("--pace", "ttft_ms=1,gap_ms=0.1", "--certificate", str(certificate))
    with stand_in(tmp_path, *options, "--api-key-env", "STAND_IN_KEY") as running:
        secure = StandIn(running.port, running.log_path, scheme="https")
        asked: dict[str, Any] = {
            "tokens": {"api_key_env": "STAND_IN_KEY"},
            "client": client,
            "duration_s": 0.3,
        }
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        _, outcome, tokens = _load(secure, tmp_path / "trusted", **asked)
        assert tokens["ttft_ms"]["count"] > 0 and not outcome.applied.explanations
        assert tokens["stamp"]["by"] == "read"  # what arrives is not what is decrypted
        served = len(running.log())
        monkeypatch.delenv("SSL_CERT_FILE")
        plan = standalone.plan(
            standalone.Asked(
                url=secure.url, arrivals="poisson:5", model="stand-in", protocol="openai",
                options={"client": client}, tokens=TokenOptions(**asked["tokens"]),
            ),
            tmp_path / "stranger",
        )  # fmt: skip
        with pytest.raises(InputError, match="(?i)certificate"):
            standalone.check_target(plan)
        assert len(running.log()) == served


def _certificate(address: str) -> bytes:
    """A private key and a certificate that it signed itself, of an IP address, for an hour."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stand-in")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + built.public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://127.0.0.1", {}, "http or https"),
        ("http://u:p@127.0.0.1", {}, "no user"),
        ("http://127.0.0.1:1/a b", {}, "no address"),
        ("", {"tokens": {"api_key_env": "NO_SUCH_KEY"}}, "NO_SUCH_KEY is not set"),
        ("", {"batch_size": 4}, "is one prompt"),
        ("", {"tokens": {"extra_body": '{"stream": false}'}}, "'stream' is set by the load"),
        ("", {"tokens": {"extra_body": "["}}, "no JSON"),
        ("", {"tokens": {"extra_body": '{"n": 2}'}}, "n must be 1"),
    ],
)
def test_what_can_not_be_asked_is_refused(
    server: StandIn, tmp_path: Path, url: str, options: dict[str, Any], message: str
) -> None:
    """Before anything is sent."""
    asked = standalone.Asked(
        url=url or server.url, arrivals="poisson:5", model="stand-in", protocol="openai",
        options={"duration_s": 1.0}, batch_size=str(options.get("batch_size", 1)),
        tokens=TokenOptions(**options.get("tokens", {})),
    )  # fmt: skip
    with pytest.raises(InputError, match=message):
        standalone.plan(asked, tmp_path)


def test_the_command_tells_figures_objective_and_where_the_records_are(
    server: StandIn, tmp_path: Path
) -> None:
    """Also that the server is no model; the model's name is asked for where only one is served."""
    command = [
        sys.executable, "-m", "inferbench_tasks.cli.main", "load", "run", "--protocol", "openai", "--url", server.url,
        "--arrivals", "constant:20", "--duration", "1", "--warmup", "0", "--output-tokens", "uniform:min=4,max=8",
        "--ttft-ms", "60000", "--tpot-ms", "60000", "--save", str(tmp_path / "load"), "-o", "json",
    ]  # fmt: skip
    environment = {**os.environ, "INFERBENCH_DATA_DIR": str(tmp_path / "data")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    document = json.loads(done.stdout)
    tokens = document["summary"]["tokens"]
    assert tokens["requests"] == 20 and 4 <= tokens["output_tokens_mean"] <= 8
    assert (tokens["each"], tokens["good_ratio"]) == ({"ttft_ms": 60000, "tpot_ms": 60000}, 1.0)
    assert document["summary"]["goodput_rps"] == 20.0
    (ceiling,) = [check for check in document["certificate"]["checks"] if check["name"] == "chunk_ceiling"]
    assert 0 < ceiling["value"] < ceiling["limit"] == 0.5
    assert document["ceiling"]["protocol"] == "openai" and document["ceiling"]["requests_per_s"] > 0
    assert any("no model" in warning for warning in document["certificate"]["warnings"])
    assert {path.name for path in (tmp_path / "load").glob("*.parquet")} == {
        "samples.parquet", "streams.parquet", "chunks.parquet"
    }  # fmt: skip
