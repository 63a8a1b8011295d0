"""What servers of real language models have in common: OpenAI's API, and slots of the same size on each."""

from __future__ import annotations

from inferbench_tasks.backends.base import Backend, Deployment
from inferbench_tasks.contracts.handles import Endpoint

#: Unless a submission says otherwise; the same for all, or their figures would not be comparable.
SLOTS, CONTEXT_TOKENS = 4, 4096
#: Of prompts that left their slot; none without ``prefix_cache``.
CACHE_RAM_MIB = 1024


class LanguageServer(Backend):
    """It answers texts with streams of tokens, several at once, each in a slot with a context of its own."""

    protocols = ("openai",)
    batching = False
    streams = True
    slots = True
    slot_tokens = CONTEXT_TOKENS
    ignores_eos = True


def endpoint_at(deployment: Deployment, port: int) -> Endpoint:
    """Where it answers, by the name of the deployment's model."""
    return Endpoint(protocol="openai", host=deployment.host, port=port, model_name=deployment.model_name)
