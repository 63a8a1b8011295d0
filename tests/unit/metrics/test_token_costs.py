"""What a million tokens cost."""

from __future__ import annotations

import pytest

from inferbench_tasks.metrics.token_costs import per_million_tokens


def test_a_million_tokens_cost_what_they_take() -> None:
    """At 200 tokens/s: 50 W are 0.25 J each, and 0.36 USD/h half a millionth of a dollar; null without either."""
    tokens = {"output_tokens_per_s": 200.0}
    spent = {"energy": {"power_w": 50.0}, "cost": {"instances": [{"usd_per_hour": 0.36}]}}
    assert per_million_tokens({"tokens": tokens, **spent}) == pytest.approx(
        {"joule_per_million_tokens": 250_000.0, "usd_per_million_tokens": 0.5}
    )
    nothing = {"joule_per_million_tokens": None, "usd_per_million_tokens": None}
    assert per_million_tokens({"tokens": tokens, "energy": {}, "cost": {"reason": "?"}}) == nothing
    assert per_million_tokens({"tokens": {"output_tokens_per_s": None}, **spent}) == nothing
