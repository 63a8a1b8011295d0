"""A run's page, as far as it needs no database."""

from __future__ import annotations

import re
from typing import Any

from inferbench_tasks.provider.ui.run_page import as_asked
from inferbench_tasks.submission.schema import JobSpec


def test_a_job_without_tokens_is_shown_without_a_word_of_them() -> None:
    """And read back it is the same job; what a language model's job says stays."""
    fields: dict[str, Any] = {
        "name": "x",
        "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "poisson", "rate_rps": 5}},
    }
    job = JobSpec.model_validate(fields)
    shown = as_asked(job.model_dump(mode="json"))
    assert not re.search("token|turns|salt|prefix", str(shown))
    assert JobSpec.model_validate(shown) == job
    fields |= {
        "model": {"kind": "llm_stand_in"},
        "convert": {"format": "llm_stand_in"},
        "serve": {"backend": "llm_stand_in"},
        "requests": {"kind": "prompts", "output_tokens": {"kind": "fixed", "value": 8}, "salt": False},
        "load": {"protocol": "openai", "arrivals": {"kind": "poisson", "rate_rps": 5}},
    }
    told = JobSpec.model_validate(fields)
    shown = as_asked(told.model_dump(mode="json"))
    assert shown["requests"]["output_tokens"]["value"] == 8 and shown["requests"]["salt"] is False
    assert JobSpec.model_validate(shown) == told
