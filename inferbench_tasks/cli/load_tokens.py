"""The options of ``inferbench load run`` that are of streamed tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks.errors import InputError

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.token_load import TokenOptions


def token_options(
    protocol: str | None,
    *,
    api: str | None,
    api_key_env: str | None,
    input_tokens: str | None,
    output_tokens: str | None,
    prompts: Path | None,
    salt: bool,
    ignore_eos: bool,
    extra_body: str | None,
    each: dict[str, float | None],
    turns: str | None = None,
    think_time_ms: str | None = None,
    conversations: Path | None = None,
    trace: Path | None = None,
    tokenizer: Path | None = None,
) -> TokenOptions | None:
    """What was asked for; None for another protocol, of which an option is refused (InputError)."""
    given = {
        "--api": api, "--api-key-env": api_key_env, "--input-tokens": input_tokens, "--output-tokens": output_tokens,
        "--prompts": prompts, "--no-salt": not salt or None, "--ignore-eos": ignore_eos or None,
        "--extra-body": extra_body, "--turns": turns, "--think-time-ms": think_time_ms,
        "--conversations": conversations, "--trace": trace, "--tokenizer": tokenizer,
        **{f"--{name.replace('_', '-')}": bound for name, bound in each.items()},
    }  # fmt: skip
    if protocol != "openai":
        if wrong := [name for name, value in given.items() if value is not None]:
            raise InputError(f"{wrong[0]} is of streamed tokens: it needs --protocol openai")
        return None
    from inferbench_tasks.clients.openai_form import PATHS
    from inferbench_tasks.loadgen.target import parse_lengths
    from inferbench_tasks.loadgen.token_load import TokenOptions
    from inferbench_tasks.loadgen.token_summary import Each
    from inferbench_tasks.requests.prompts import TraceFile

    apis = {name: name for name in PATHS}
    if api is not None and api not in apis:
        raise InputError(f"--api: {api!r} is none; known: {', '.join(apis)}")
    if conversations is not None and (
        taken := [name for name in ("--prompts", "--input-tokens", "--turns") if given[name]]
    ):
        raise InputError(
            f"{taken[0]}: what users say is in the file of --conversations; leave one of them out"
        )
    if turns is not None and prompts is not None:
        raise InputError("--turns: goes with made-up prose; the turns of your own texts are --conversations")
    if think_time_ms is not None and turns is None and conversations is None:
        raise InputError("--think-time-ms is of conversations; give --turns or --conversations as well")
    if trace is not None:
        others = ("--prompts", "--input-tokens", "--output-tokens", "--turns", "--conversations")
        if wrong := [name for name in others if given[name] is not None]:
            raise InputError(f"{wrong[0]}: the tokens are in the file of --trace; leave one of them out")
    return TokenOptions(
        trace=TraceFile(trace.parent, trace.name) if trace else None,
        turns=parse_lengths(turns, "--turns") if turns else None,
        think_time_ms=parse_lengths(think_time_ms, "--think-time-ms") if think_time_ms else None,
        conversations=conversations,
        api=apis[api or "chat"],
        api_key_env=api_key_env,
        input_tokens=parse_lengths(input_tokens or "200", "--input-tokens"),
        output_tokens=parse_lengths(output_tokens or "64", "--output-tokens"),
        prompts=prompts,
        salt=salt,
        ignore_eos=ignore_eos,
        extra_body=extra_body,
        each=Each(**each),
        tokenizer=tokenizer,
    )
