"""Whether the parts of a system that answer by HTTP do, and what they say of the others."""

from __future__ import annotations

import httpx


def health(url: str, client: httpx.Client | None = None) -> dict[str, str]:
    """Part -> status, from Airflow's own monitor; empty while it does not answer."""
    try:
        answer = (client or httpx).get(f"{url}/api/v2/monitor/health", timeout=5)
    except httpx.TransportError:
        return {}
    if answer.status_code != 200:
        return {}
    return {
        part: str(value.get("status")) for part, value in answer.json().items() if isinstance(value, dict)
    }


def execution_health(url: str, client: httpx.Client | None = None) -> str:
    """Of what running tasks ask, in the words of Airflow's monitor."""
    try:
        answer = (client or httpx).get(f"{url}health", timeout=5)
    except httpx.TransportError:
        return "unhealthy"
    return "healthy" if answer.status_code == 200 else "unhealthy"
