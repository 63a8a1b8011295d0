"""Tokens of workers: what the leader keeps of them, and when they open something."""

from __future__ import annotations

import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.cli.tokens import create, lasts
from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.provider.joining.token_source import TOKEN, read_token
from inferbench_tasks.provider.joining.tokens import FILE, FOLDER, Secret, TakenError, Tokens

FINGERPRINT = "a" * 64
DAY = timedelta(days=1)


def test_the_leader_keeps_neither_the_secret_nor_the_password(tmp_path: Path) -> None:
    """The file has digests only, and is its owner's alone."""
    _, secret = Tokens(tmp_path).create("rack-1", DAY, FINGERPRINT)
    path = tmp_path / FILE
    assert secret.secret not in path.read_text() and secret.password not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret.secret not in repr(secret) and Secret.parse(secret.text + "\n") == secret


def test_a_token_opens_with_its_own_secret_only(tmp_path: Path) -> None:
    """Another token's secret, no secret and an unknown id are refused alike."""
    tokens = Tokens(tmp_path)
    token, secret = tokens.create("a", DAY, FINGERPRINT)
    _, other = tokens.create("b", DAY, FINGERPRINT)
    assert tokens.presented(token.token_id, secret.secret).name == "a"
    for token_id, text in ((token.token_id, other.secret), (token.token_id, ""), ("0" * 12, secret.secret)):
        with pytest.raises(InputError, match="not known here"):
            tokens.presented(token_id, text)
    assert token.knows(secret.password) and not token.knows(other.password)


def test_a_revoked_token_opens_nothing_and_its_name_is_free(tmp_path: Path) -> None:
    """Nor is it revoked twice; the one that follows it is another."""
    tokens = Tokens(tmp_path)
    token, secret = tokens.create("a", DAY, FINGERPRINT)
    with pytest.raises(InputError, match="has a token that is in force"):
        tokens.create("a", DAY, FINGERPRINT)
    assert tokens.revoke("a").token_id == token.token_id
    with pytest.raises(InputError, match="is revoked"):
        tokens.presented(token.token_id, secret.secret)
    with pytest.raises(InputError, match="no token 'a' to revoke; in force: none"):
        tokens.revoke("a")
    assert tokens.create("a", DAY, FINGERPRINT)[0].token_id != token.token_id
    assert [t.state(datetime.now(UTC)) for t in tokens.all()] == ["revoked", "unused"]


def test_an_expired_token_opens_nothing(tmp_path: Path) -> None:
    """From its end on, without anybody's doing."""
    tokens = Tokens(tmp_path)
    token, secret = tokens.create("a", timedelta(0), FINGERPRINT)
    with pytest.raises(InputError, match="is expired"):
        tokens.presented(token.token_id, secret.secret)
    assert not token.active(datetime.now(UTC))


def test_of_hosts_that_join_at_once_with_one_token_one_is_written_down(tmp_path: Path) -> None:
    """Each looks under the lock whether another was first; the first may come again."""
    tokens = Tokens(tmp_path)
    token, _ = tokens.create("a", DAY, FINGERPRINT)
    taken, began = [], threading.Barrier(4)

    def join(home: str) -> None:
        began.wait()
        try:
            tokens.joined(token.token_id, home, "h")
        except TakenError:
            taken.append(home)

    threads = [threading.Thread(target=join, args=(f"home-{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (kept,) = tokens.all()
    assert len(taken) == 3 and kept.home not in taken
    assert tokens.joined(token.token_id, str(kept.home), "again").host == "again"
    tokens.revoke("a")
    with pytest.raises(InputError, match="is revoked"):
        tokens.joined(token.token_id, str(kept.home), "h")


@pytest.mark.parametrize("text", ["", "{", '[{"token_id": "secret-of-it"}]', "3", "[3]", "\x80"])
def test_damaged_tokens_are_told_and_not_taken_for_none(tmp_path: Path, text: str) -> None:
    """With their file and the remedy, and nothing of what it has."""
    (tmp_path / FILE).write_text(text, encoding="latin-1")
    with pytest.raises(StorageError, match=r"tokens\.json can't be read.*new tokens") as told:
        Tokens(tmp_path).all()
    assert "secret-of-it" not in str(told.value)


@pytest.mark.parametrize(
    "text", ["", "ibw1", "ibw1.abc.def.0", "ibw2." + "0" * 12 + "." + "s" * 43 + "." + "a" * 64]
)
def test_what_is_no_token_is_refused_without_being_quoted(text: str) -> None:
    """It may be another secret, pasted in error."""
    with pytest.raises(InputError, match="is no token") as refusal:
        Secret.parse("my-password " + text)
    assert "my-password" not in str(refusal.value)


def test_a_token_comes_from_a_file_or_the_environment_and_never_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ps` shows command lines to all; what was written there is not quoted either."""
    _, secret = Tokens(tmp_path).create("a", DAY, FINGERPRINT)
    path = tmp_path / "token"
    path.write_text(secret.text)
    for mode in (0o644, 0o640, 0o604):
        path.chmod(mode)
        with pytest.raises(InputError, match=f"mode {mode:o}.*`chmod 600 {path}`"):
            read_token(str(path))
    path.chmod(0o600)
    assert read_token(str(path)) == secret
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(InputError, match="--join needs a token"):
        read_token(None)
    monkeypatch.setenv(TOKEN, secret.text)
    assert read_token(None) == secret
    with pytest.raises(InputError, match="not the token itself") as refusal:
        read_token(secret.text)
    assert secret.secret not in str(refusal.value)
    with pytest.raises(InputError, match="No such file"):
        read_token(str(tmp_path / "missing"))


def test_a_token_s_file_is_its_owner_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the shell's umask; a file that is there is not written over, and no token is made then."""
    monkeypatch.setenv(settings.DATA_DIR, str(tmp_path / "data"))
    path = tmp_path / "rack-1.token"
    before = os.umask(0)
    try:
        create("rack-1", "1d", path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    tokens = Tokens(tmp_path / "data" / "system" / FOLDER)
    assert read_token(str(path)).token_id == tokens.all()[0].token_id
    for place in (path, tmp_path / "missing" / "file"):
        with pytest.raises(InputError, match="--to .* can't be written: (File exists|No such file)"):
            create("rack-2", "1d", place)
    with pytest.raises(InputError, match="has a token that is in force"):
        create("rack-1", "1d", tmp_path / "other")
    assert len(tokens.all()) == 1 and not (tmp_path / "other").exists()


def test_how_long_a_token_lasts() -> None:
    """Minutes, hours, days, and nothing beyond ten years."""
    assert (lasts("30m"), lasts("12h"), lasts("90d")) == (
        timedelta(minutes=30),
        timedelta(hours=12),
        90 * DAY,
    )
    for text in ("", "0d", "-1d", "1w", "1.5h", "3651d", "90"):
        with pytest.raises(InputError, match="allowed are 30m, 12h, 90d"):
            lasts(text)


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a" * 41, "../x"])
def test_a_token_s_name_is_plain(tmp_path: Path, name: str) -> None:
    """It stands in logs and lists."""
    with pytest.raises(InputError, match="allowed are 1 to 40 of a-z, 0-9 and -"):
        Tokens(tmp_path).create(name, DAY, FINGERPRINT)
