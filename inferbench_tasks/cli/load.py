"""``inferbench load``: the load engine by itself, against any server that speaks one of its protocols."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import typer
from pydantic import ValidationError

from inferbench_tasks import settings
from inferbench_tasks.cli.links import own_end
from inferbench_tasks.cli.load_table import print_result
from inferbench_tasks.cli.load_tokens import token_options
from inferbench_tasks.errors import InputError, LoadError
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.problem import field_problems

app = typer.Typer(no_args_is_help=True)

_URL = typer.Option(
    ...,
    "--url",
    help="[http|grpc|tfs]://host:port[/model]; http without a scheme. With --protocol openai "
    "http[s]://host[:port][/base], /v1 without a base.",
)
_OPENAI = "With --protocol openai"
_ARRIVALS = typer.Option(
    ...,
    "--arrivals",
    help="poisson:100, poisson:rate_rps=100, closed_loop:8, spike:base_rate_rps=...,...; or JSON. "
    "See `inferbench arrivals`.",
)


@app.command()
def run(
    url: str = _URL,
    arrivals: str = _ARRIVALS,
    model: str | None = typer.Option(None, help="The model's name, if the URL does not give it."),
    model_version: str | None = typer.Option(
        None, help="The model's version; the server's choice by default."
    ),
    protocol: str | None = typer.Option(
        None, help="http, grpc (both KServe v2), tfs (TensorFlow Serving) or openai (streamed tokens)."
    ),
    duration_s: float = typer.Option(10.0, "--duration", help="Seconds to measure."),
    warmup_s: float = typer.Option(2.0, "--warmup", help="Seconds of load before that."),
    input_file: Path | None = typer.Option(
        None, "--input", help=".npz with one array per input, first axis = samples; made up by default."
    ),
    shape: list[str] = typer.Option([], help="Shape of a made-up sample: name=3,224,224. Repeatable."),
    batch_size: str = typer.Option(
        "1", help="Samples per request; 1:3,8:1 is a mix (three of size 1 to one of 8)."
    ),
    json_tensors: bool = typer.Option(False, "--json-tensors", help="HTTP with tensors as JSON, not binary."),
    timeout_ms: float | None = typer.Option(
        None, help="A request's deadline; 10,000 unless given, with openai 120,000."
    ),
    max_requests: int | None = typer.Option(None, help="Stop after so many measured requests."),
    max_error_ratio: float = typer.Option(0.5, help="Stop when this share of the requests has failed."),
    max_backlog: int | None = typer.Option(None, help="Stop when more requests than this are in flight."),
    shards: str = typer.Option("auto", help="Sender processes."),
    connections: int | None = typer.Option(None, help="The most connections; by default as many as needed."),
    client: str = typer.Option(
        "fast", help="fast, or a library's: reference (aiohttp, grpc.aio), tritonclient."
    ),
    engine: str = typer.Option(
        "inferbench", help="inferbench, or mlperf_loadgen: MLPerf's LoadGen makes one of its four scenarios."
    ),
    target_latency_ms: float | None = typer.Option(
        None, "--target-latency", help="ms that 99% of the queries must keep, for LoadGen's server scenario."
    ),
    seed: int = typer.Option(1, help="The same seed gives the same schedule and inputs."),
    expect: str | None = typer.Option(
        None, help="overload: more than the server can answer is meant; latencies then stand."
    ),
    api: str | None = typer.Option(
        None, help="openai: chat (by default) or completions.", rich_help_panel=_OPENAI
    ),
    api_key_env: str | None = typer.Option(
        None,
        help="The environment variable that holds the API key; the key itself is written nowhere.",
        rich_help_panel=_OPENAI,
    ),
    input_tokens: str | None = typer.Option(
        None,
        help="Length of prompts: 200 (by default), lognormal:mean=200,cv=0.8,min=16,max=1024, "
        "uniform:min=10,max=50, normal:mean=100, empirical:path=lengths.csv,column=input.",
        rich_help_panel=_OPENAI,
    ),
    output_tokens: str | None = typer.Option(
        None,
        help="Length of answers, asked for as max_tokens: 64 by default, or a law as above.",
        rich_help_panel=_OPENAI,
    ),
    prompts: Path | None = typer.Option(
        None, help="JSON Lines with a `prompt` each, instead of made-up prose.", rich_help_panel=_OPENAI
    ),
    salt: bool = typer.Option(
        True,
        help="Begin each prompt with a word of this load: no cached prefix of an earlier one is found.",
        rich_help_panel=_OPENAI,
    ),
    turns: str | None = typer.Option(
        None,
        help="Turns of a conversation: 3, or a law as above; each is sent with all that was said. Arrivals are then of "
        "conversations.",
        rich_help_panel=_OPENAI,
    ),
    think_time_ms: str | None = typer.Option(
        None, help="From an answer to the next turn, ms: 500, or a law as above.", rich_help_panel=_OPENAI
    ),
    conversations: Path | None = typer.Option(
        None, help="JSON Lines with `messages` each, instead of made-up turns.", rich_help_panel=_OPENAI
    ),
    trace: Path | None = typer.Option(
        None,
        help="CSV, Parquet or JSON Lines: tokens and shared prefixes of recorded requests, in their order. For their "
        "moments as well: --arrivals trace:path=FILE.",
        rich_help_panel=_OPENAI,
    ),
    tokenizer: Path | None = typer.Option(
        None,
        help="The model's tokenizer.json or GGUF file: prompts of exact lengths; after the load the server's counts "
        "are compared with it, and answers counted where the server tells no usage.",
        rich_help_panel=_OPENAI,
    ),
    ignore_eos: bool = typer.Option(
        False,
        "--ignore-eos",
        help="Ask for answers of full length (vLLM, llama.cpp).",
        rich_help_panel=_OPENAI,
    ),
    extra_body: str | None = typer.Option(
        None,
        help='JSON with more fields of each request: {"temperature": 0}; null leaves one out.',
        rich_help_panel=_OPENAI,
    ),
    ttft_ms: float | None = typer.Option(
        None, min=0, help="A good answer's first token, from the intended moment.", rich_help_panel=_OPENAI
    ),
    tpot_ms: float | None = typer.Option(
        None, min=0, help="A good answer's time per token after the first chunk.", rich_help_panel=_OPENAI
    ),
    latency_ms: float | None = typer.Option(
        None, min=0, help="A good answer's last token, from the intended moment.", rich_help_panel=_OPENAI
    ),
    realtime: bool = typer.Option(False, "--realtime", help="SCHED_FIFO for the senders, where permitted."),
    allow_unsafe_load: bool = typer.Option(
        False, "--allow-unsafe-load", help="Also above half of what this client can send."
    ),
    link: str | None = typer.Option(
        None,
        metavar="FILE",
        help="Of `inferbench links listen` on the server's host: the network in between is measured before and after.",
    ),
    save: Path | None = typer.Option(
        None, help="Folder for the records; by default under the data directory."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Load a server; print the figures and the certificate of the traffic; keep every record."""
    from inferbench_tasks.loadgen import standalone
    from inferbench_tasks.networks.links.around import AroundLoad, require_same_host
    from inferbench_tasks.networks.links.invitation import Invitation
    from inferbench_tasks.networks.links.near_side import NearSide

    tokens = token_options(
        protocol,
        api=api, api_key_env=api_key_env, input_tokens=input_tokens, output_tokens=output_tokens, prompts=prompts,
        salt=salt, ignore_eos=ignore_eos, extra_body=extra_body, turns=turns, think_time_ms=think_time_ms,
        conversations=conversations, trace=trace, tokenizer=tokenizer,
        each={"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "latency_ms": latency_ms},
    )  # fmt: skip
    usual_ms = 120_000.0 if tokens else 10_000.0
    order = standalone.Asked(
        url=url, arrivals=arrivals, model=model, model_version=model_version, protocol=protocol,
        input_file=input_file, shapes=tuple(shape), batch_size=batch_size, binary=not json_tensors,
        max_backlog=max_backlog, target_latency_ms=target_latency_ms, tokens=tokens,
        options={
            "duration_s": duration_s, "warmup_s": warmup_s, "timeout_ms": timeout_ms or usual_ms,
            "max_requests": max_requests,
            "max_error_ratio": max_error_ratio, "shards": shards if shards == "auto" else _number("--shards", shards),
            "connections": connections, "client": client, "engine": engine, "seed": seed, "realtime": realtime,
            "allow_unsafe_load": allow_unsafe_load, "expect": expect,
        },
    )  # fmt: skip
    invitation = Invitation.read(link) if link else None
    data_dir = settings.writable(settings.data_dir())
    folder = save or data_dir / "loads" / time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    try:
        plan = standalone.plan(order, folder)
    except ValidationError as error:
        problems = "; ".join(field_problems(error))
        raise InputError(f"The load is not valid: {problems}") from error
    if invitation:
        require_same_host(invitation, plan.endpoint.host)
    standalone.check_target(plan)
    with ExitStack() as stack:
        around = None
        if invitation:
            say(f"measuring the link to {invitation.address}")
            around = AroundLoad(stack.enter_context(NearSide(invitation)), own_end())
        bar, interrupt = stack.enter_context(_Bar()), stack.enter_context(_Interruptible())
        result = standalone.apply(
            plan,
            folder,
            data_dir / "cache" / "ceilings",
            allow_unsafe_load,
            bar.show,
            lambda: interrupt.asked,
            tokens.each if tokens else None,
            around.ended if around else None,
        )
    if output is OutputFormat.table:
        print_result(result)
    else:
        emit(result.document(), output)
    if result.problem:
        raise LoadError(result.problem)
    if not result.stimulus.valid:
        raise typer.Exit(1)


@app.command()
def calibrate(
    protocol: str = typer.Option("http", help="http, grpc or tfs."),
    request_bytes: int = typer.Option(
        1024, min=4, max=2**30, help="Size of the tensor that each request carries."
    ),
    answer_bytes: int = typer.Option(64, min=4, max=2**30, help="Size of the tensor in each answer."),
    client: str = typer.Option("fast", help="fast, reference or tritonclient."),
    shards: int = typer.Option(1, min=1, max=64, help="Sender processes."),
    fresh: bool = typer.Option(False, "--fresh", help="Measure again even if it is known."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Measure what this machine's client can send, against a server that does nothing; remembered."""
    from inferbench_tasks.loadgen import standalone

    data_dir = settings.writable(settings.data_dir())
    limits = standalone.calibrate(
        protocol, request_bytes, answer_bytes, client, shards, data_dir / "cache" / "ceilings", fresh=fresh
    )
    emit(limits, output)


def _number(option: str, text: str) -> int:
    if not text.isdigit():
        raise InputError(f"{option}: {text!r} is no number")
    return int(text)


class _Interruptible:
    """Ctrl-C and SIGTERM end the load in good order: what was recorded is kept."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> _Interruptible:
        self._before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


class _Bar:
    """One line on a terminal, one line every five seconds elsewhere."""

    def __enter__(self) -> _Bar:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._lines = not console.is_terminal
        self._told_s = 0.0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=self._lines,
            transient=True,
        )
        self._task = self._progress.add_task("load", total=None, text="preparing")
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, phase: str, done_s: float, total_s: float, snapshot: Snapshot | None) -> None:
        """Show how far the load is and what was measured so far."""
        text = snapshot.text() if snapshot else ""
        self._progress.update(
            self._task, description=phase, completed=min(done_s, total_s), total=total_s, text=text
        )
        if self._lines and (phase != "measuring" or done_s - self._told_s >= 5):
            if phase != "measuring" and self._told_s:
                return
            self._told_s = done_s or 1e-9
            say(f"{phase}: {text}" if text else phase)
