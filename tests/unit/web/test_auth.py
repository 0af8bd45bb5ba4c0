"""Passwords: right ones are remembered, wrong ones wait, and names that do not exist are no better."""

from __future__ import annotations

import threading

import bcrypt
import pytest
import requests

from exporter.web.app import App, Environ, Policy, Response, RouteHandlers
from exporter.web.auth import _GUESSES, BasicAuth, Verdict


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def basic(name: str, password: str) -> str:
    return requests.auth._basic_auth_str(name, password)


def test_wrong_password_is_answered_late_and_a_browsers_first_request_is_not() -> None:
    pages = RouteHandlers(metrics=lambda _: ("text/plain", b""), status=lambda: "", ready=lambda: "")
    application = App(pages, "/metrics", lambda: Policy(BasicAuth({"prom": hashed("x")})))

    def after(authorization: str) -> float:
        asked = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "HTTP_AUTHORIZATION": authorization}
        return application.respond(asked).after

    assert [after(""), after(basic("prom", "x")), after(basic("prom", "wrong"))] == [0.0, 0.0, 1.0]


def test_wrong_passwords_are_checked_one_at_a_time_and_not_for_ever() -> None:
    now = [0.0]
    auth = BasicAuth({"prom": hashed("secret")}, lambda: now[0])
    verdicts = [auth.check(basic("prom", f"guess{number}"), "peer") for number in range(20)]

    assert verdicts == [Verdict.REFUSED] * 10 + [Verdict.WAIT] * 10
    assert auth.check(basic("prom", "secret"), "somebody else") is Verdict.ALLOWED
    assert auth.known(basic("prom", "secret"), "peer") is Verdict.ALLOWED  # remembered: no guess
    assert auth.known(basic("prom", "another"), "somebody else") is None
    assert auth.known(basic("prom", "another"), "peer") is Verdict.WAIT  # told without a check

    now[0] = 2.0
    assert [auth.check(basic("prom", "guess"), "peer") for _ in range(2)] == [Verdict.REFUSED, Verdict.WAIT]


def test_name_that_does_not_exist_takes_as_long_as_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    right = hashed("right")
    compared: list[str] = []
    monkeypatch.setattr(bcrypt, "checkpw", lambda _, against: compared.append(against.decode()) is None)
    verdicts = [BasicAuth({"prom": right}).check(basic(name, "right")) for name in ("prom", "eve")]

    assert verdicts == [Verdict.ALLOWED, Verdict.REFUSED]
    assert compared == [right, right]


def test_password_is_compared_as_far_as_bcrypt_reads_it() -> None:
    auth = BasicAuth({"prom": hashed("x" * 72)})

    assert auth.check(basic("prom", "x" * 80)) is Verdict.ALLOWED
    assert auth.check(basic("prom", "x" * 71)) is Verdict.REFUSED


def test_guesses_of_one_peer_are_not_those_of_another_and_a_peer_that_waits_costs_no_check() -> None:
    policy = Policy(BasicAuth({"prom": hashed("right")}, lambda: 0.0))
    app = App(RouteHandlers(metrics=lambda _: ("", b""), status=str, ready=str), "/metrics", lambda: policy)

    def wrong(peer: str) -> Environ:
        asked = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "REMOTE_ADDR": peer}
        return {**asked, "HTTP_AUTHORIZATION": basic("prom", "wrong")}

    answers = [app.respond(wrong("a")) for _ in range(_GUESSES + 1)]

    assert [each.status for each in answers] == ["401 Unauthorized"] * _GUESSES + ["429 Too Many Requests"]
    assert ("Retry-After", "10") in answers[-1].headers
    assert isinstance(app.begin(wrong("a")), Response)
    assert app.respond(wrong("b")).status == "401 Unauthorized"


def test_right_password_gives_the_peer_its_guesses_back() -> None:
    auth = BasicAuth({"prom": hashed("secret")}, lambda: 0.0)
    tries = ["wrong"] * 9 + ["secret"] + ["wrong"] * 11

    verdicts = [auth.check(basic("prom", each), "peer") for each in tries]

    assert [verdicts.index(Verdict.ALLOWED), verdicts.index(Verdict.WAIT)] == [9, 20]


def test_name_that_does_not_exist_is_refused_whatever_its_password() -> None:
    auth = BasicAuth({"prom": hashed("secret"), "grafana": hashed("other")})

    assert auth.check(basic("prom", "secret")) is Verdict.ALLOWED
    assert auth.check(basic("grafana", "other")) is Verdict.ALLOWED
    assert auth.check(basic("root", "secret")) is Verdict.REFUSED
    assert auth.check(basic("grafana", "secret")) is Verdict.REFUSED


def test_without_users_everybody_may_look() -> None:
    assert BasicAuth({}).check("") is Verdict.ALLOWED


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic %%%", "Basic " + "x" * 5, "Bearer cHJvbTpzZWNyZXQ=", "Basic OnNlY3JldA==", "Basic /w=="],
)
def test_header_that_names_nobody_is_refused_without_a_check(header: str) -> None:
    assert BasicAuth({"prom": hashed("secret")}).known(header) is Verdict.REFUSED


def test_scheme_is_read_in_any_case() -> None:
    assert (
        BasicAuth({"prom": hashed("secret")}).check(basic("prom", "secret").replace("Basic", "bASIC"))
        is Verdict.ALLOWED
    )


def test_only_so_many_peers_are_remembered() -> None:
    auth = BasicAuth({"prom": hashed("secret")}, lambda: 0.0)
    for number in range(10):
        auth.check(basic("prom", f"guess{number}"), "first")
    assert auth.known(basic("prom", "x"), "first") is Verdict.WAIT

    for number in range(1024):
        auth._guess(f"peer{number}")

    assert len(auth._guesses) == 1024
    assert auth.known(basic("prom", "x"), "first") is None


def test_hash_that_is_none_lets_nobody_in() -> None:
    assert BasicAuth({"prom": "no hash"}).check(basic("prom", "no hash")) is Verdict.REFUSED


def test_passwords_sent_at_once_are_checked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    auth, together, met = BasicAuth({"prom": hashed("secret")}), threading.Barrier(2), list[bool]()

    def checked(*_: object) -> bool:
        try:
            together.wait(0.2)
        except threading.BrokenBarrierError:
            met.append(False)
        else:
            met.append(True)
        return False

    monkeypatch.setattr(bcrypt, "checkpw", checked)
    threads = [threading.Thread(target=auth.check, args=(basic("prom", f"guess{n}"), f"peer{n}")) for n in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert met == [False, False]
