"""Who is told of a confirmed change: Airflow notifiers, by one setting.

``INFERBENCH_NIGHTLY_NOTIFY`` holds addresses separated by commas: ``https://...`` gets the change as JSON by
POST, ``mailto:team@example.org`` a mail by Airflow's SMTP connection ``smtp_default``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx
from airflow.sdk import BaseNotifier

from inferbench_tasks.errors import InputError

if TYPE_CHECKING:
    from airflow.sdk import Context

NOTIFY = "INFERBENCH_NIGHTLY_NOTIFY"
TIMEOUT_S = 20.0


class WebhookNotifier(BaseNotifier):
    """Posts {subject, text, report, regressions, improvements} as JSON; says nothing where nothing changed."""

    template_fields = ()

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def notify(self, context: Context) -> None:
        """Raises httpx.HTTPError if it was not taken: Airflow logs that."""
        if message := told_by(context):
            httpx.post(self.url, json=message, timeout=TIMEOUT_S).raise_for_status()


class MailNotifier(BaseNotifier):
    """The same as a mail, by Airflow's own SMTP notifier."""

    template_fields = ()

    def __init__(self, to: str) -> None:
        super().__init__()
        self.to = to

    def notify(self, context: Context) -> None:
        """Raises what the SMTP provider raises."""
        from html import escape

        from airflow.providers.smtp.notifications.smtp import SmtpNotifier

        if message := told_by(context):
            body = f"<pre>{escape(message['text'])}</pre><p>Report: {escape(message['report'])}</p>"
            SmtpNotifier(to=self.to, subject=message["subject"], html_content=body).notify(context)


def told_by(context: Context) -> dict[str, Any] | None:
    """The task's message, None if nothing was confirmed."""
    message = context["ti"].xcom_pull(task_ids=context["ti"].task_id, key="told")
    return message if message and (message["regressions"] or message["improvements"]) else None


def notifiers() -> list[Callable[[Context], None]]:
    """Those that the setting names; InputError for an address of another kind."""
    callbacks: list[Callable[[Context], None]] = []
    for address in filter(None, (part.strip() for part in os.environ.get(NOTIFY, "").split(","))):
        if address.startswith(("https://", "http://")):
            callbacks.append(WebhookNotifier(address))
        elif address.startswith("mailto:"):
            callbacks.append(MailNotifier(address.removeprefix("mailto:")))
        else:
            raise InputError(f"{NOTIFY}: {address!r} is neither https://... nor mailto:...")
    return callbacks
