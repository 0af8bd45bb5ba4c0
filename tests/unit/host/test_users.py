"""Whose a user id is, also of the containers that a user runs without root."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from exporter.host.process import account

ACCOUNTS = {"root": 0, "ada": 1000, "bob": 1001}


@pytest.fixture(autouse=True)
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [SimpleNamespace(pw_name=name, pw_uid=uid) for name, uid in ACCOUNTS.items()]
    by_uid = {entry.pw_uid: entry for entry in entries}
    by_name = {entry.pw_name: entry for entry in entries}
    known = SimpleNamespace(getpwuid=by_uid.__getitem__, getpwnam=by_name.__getitem__)
    monkeypatch.setattr("exporter.host.process.pwd", known)


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        (1000, "ada"),
        (99_999, None),
        (100_000, "ada"),
        (165_535, "ada"),
        (165_536, "bob"),  # whom the file calls by number
        (231_072, None),  # root's, for anybody's containers
        (300_000, None),  # lent to two
        (400_000, None),  # to one who has gone
        (500_000, None),  # no number
    ],
)
def test_number_that_was_lent_to_one_user_is_his(tmp_path: Path, uid: int, expected: str | None) -> None:
    """A Slurm job with rootless Podman, and the containers themselves, went by `100999` in place of their user."""
    subordinate = tmp_path / "subuid"
    subordinate.write_text(
        "# ranges\n\nada:100000:65536\n1001:165536:65536\nroot:231072:65536\nada:300000:10\nbob:300000:10\n"
        "eve:400000:65536\nada:500000:many\nada::\n:1:2:3\n"
    )

    assert account(uid, subordinate) == expected


def test_host_without_the_file_has_the_number(tmp_path: Path) -> None:
    assert account(100_999, tmp_path / "subuid") is None
