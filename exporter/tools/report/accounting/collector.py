"""Reads the rows of all nodes by cursor, over HTTP. It may be killed at any time, and a node may be away for a week."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests

from exporter.core.fetch import basic_auth, fetched
from exporter.tools.report.accounting.database import Cursor, Database

_PATH = "/api/v1/allocations"
_TIMEOUT_SECONDS = 10.0
_THREADS = 16
_MAX_BYTES = 16 << 20
_FAILED = (OSError, sqlite3.OperationalError)
"""Errors of this machine and of the way, in words. requests' errors are OSErrors."""
_WRONG = (sqlite3.Error, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors to which the rows of something lead that is no exporter."""

Ask = Callable[[str, int], Mapping[str, Any]]
"""Asks a target for its rows after a number. Raises one of _FAILED or _WRONG."""


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """User, password and CA file of the exporters."""

    user: str = ""
    password: str = ""
    ca: str = ""

    def ask(self, target: str, after: int) -> Mapping[str, Any]:
        auth = basic_auth(self.user, self.password) if self.user else None
        url, after_row = f"{target}{_PATH}", {"after": after}
        timeout, verify = _TIMEOUT_SECONDS, self.ca or True
        try:
            answer = fetched(
                lambda: requests.get(url, after_row, auth=auth, timeout=timeout, verify=verify, stream=True),
                *(timeout, _MAX_BYTES),
            )
        except requests.Timeout:
            raise TimeoutError(f"{target} does not answer within {timeout:g} s") from None
        if answer.status != requests.codes.ok:
            raise OSError(f"{url} answers HTTP {answer.status}")
        found: Mapping[str, Any] = json.loads(answer.content)
        return found


def of_cluster(target: str) -> tuple[str, str]:
    """Return the cluster of a target, empty without one, and its URL."""
    cluster, equals, url = target.partition("=")
    return (cluster, url) if equals and "/" not in cluster else ("", target)


def expand(targets: Iterable[str]) -> Iterator[str]:
    """Yield the targets; one whose name has several addresses, as a headless service, is each of them."""
    for target in targets:
        cluster, own = of_cluster(target)
        url = urlsplit(own)
        try:
            found = socket.getaddrinfo(url.hostname, url.port or 80, type=socket.SOCK_STREAM)
        except OSError:
            found = []
        known = sorted({str(each[4][0]) for each in found})
        # A host of both families is one: each node is counted in the larger one.
        addresses = max([[each for each in known if (":" in each) == six] for six in (False, True)], key=len)
        if len(addresses) < 2:  # noqa: PLR2004 - several
            yield target
            continue
        for address in addresses:
            host = f"[{address}]" if ":" in address else address
            yield f"{cluster}=".lstrip("=") + urlunsplit(
                url._replace(netloc=f"{host}:{url.port}" if url.port else host)
            )


def collect(database: Database, targets: Sequence[str], ask: Ask, now: Callable[[], float]) -> Mapping[str, str]:
    """Read what is new on all targets. Return what went wrong, by target."""
    errors: dict[str, str] = {}
    waiting = {target: database.cursor(of_cluster(target)[1]) for target in targets}
    with ThreadPoolExecutor(_THREADS) as pool:
        while waiting:
            answers = pool.map(partial(_asked, ask), waiting.keys(), waiting.values())
            following: dict[str, Cursor] = {}
            for (target, cursor), answer in zip(waiting.items(), answers, strict=True):
                try:
                    if isinstance(answer, Exception):
                        raise answer
                    after = _added(database, target, cursor, answer, now())
                except _FAILED as error:
                    errors[target] = str(error) or type(error).__name__
                    continue
                except _WRONG as error:
                    errors[target] = f"not the answer of an exporter: {error!r}"
                    continue
                if after:
                    following[target] = after
            waiting = following
    return errors


def _asked(ask: Ask, target: str, cursor: Cursor) -> Mapping[str, Any] | Exception:
    try:
        return ask(of_cluster(target)[1], cursor.seq)
    except (*_FAILED, *_WRONG) as error:
        return error


def _added(database: Database, target: str, cursor: Cursor, answer: Mapping[str, Any], now: float) -> Cursor | None:
    """Add the rows of an answer. Return where to go on now; None if there is nothing more."""
    store, rows = str(answer["store"]), answer["rows"]
    if store != cursor.store and cursor.seq:  # another store: its rows begin anew
        return Cursor(store)
    seq = int(rows[-1]["seq"]) if rows else cursor.seq
    cluster, url = of_cluster(target)
    database.add(url, f"{cluster}/{answer['node']}".lstrip("/"), Cursor(store, seq), rows, now)
    return Cursor(store, seq) if answer["more"] else None
