"""Messages of Alertmanager as people get them: mail over SMTP, pages, tickets and chat over HTTP."""

from __future__ import annotations

import email
import email.policy
import json
import socketserver
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.demo.drawing.document import listed, mapping

_MAX_MESSAGES = 200
_LARGEST = 1 << 20
_TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Message:
    """`kind` is mail, page, ticket or chat; `to` who got it."""

    time: float
    kind: str
    to: str
    subject: str
    text: str


class Inbox:
    """The newest messages. `heard` is called with each."""

    def __init__(self, heard: Callable[[Message], None]) -> None:
        self._lock = threading.Lock()
        self._messages: list[Message] = []
        self._heard = heard

    def add(self, message: Message) -> None:
        with self._lock:
            self._messages = [message, *self._messages][:_MAX_MESSAGES]
        self._heard(message)

    def messages(self) -> Sequence[Message]:
        """Newest first."""
        with self._lock:
            return tuple(self._messages)


def from_http(kind: str, body: bytes) -> Message:
    """A page, a ticket or a chat message. Raises ValueError for what is none of them."""
    content: Any = json.loads(body)
    if kind not in _READERS:
        raise ValueError(f"not a kind of message: {kind}")
    to, subject, text = _READERS[kind](mapping(content))
    return Message(time.time(), kind, to, subject, text.strip())


def _page(content: Mapping[str, Any]) -> tuple[str, str, str]:
    payload = mapping(content.get("payload"))
    resolved = "Resolved: " if content.get("event_action") == "resolve" else ""
    details = mapping(payload.get("custom_details"))
    return "on-call", resolved + str(payload.get("summary", "")), str(details.get("text", ""))


def _ticket(content: Mapping[str, Any]) -> tuple[str, str, str]:
    alerts = listed(content.get("alerts"))
    first = str(alerts[0]["annotations"].get("summary", "")) if alerts else ""
    more = f" (and {len(alerts) - 1} more)" if len(alerts) > 1 else ""
    resolved = "Resolved: " if content.get("status") == "resolved" else ""
    text = "\n\n".join(
        f"{alert['annotations'].get('description', '')}\nRunbook: {alert['annotations'].get('runbook_url', '')}"
        for alert in alerts
    )
    return "on-call, in working hours", f"{resolved}{first}{more}", text


def _chat(content: Mapping[str, Any]) -> tuple[str, str, str]:
    attachment = mapping(next(iter(listed(content.get("attachments"))), None))
    return str(content.get("channel", "")), str(attachment.get("title", "")), str(attachment.get("text", ""))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, str, str]]] = {
    "page": _page,
    "ticket": _ticket,
    "chat": _chat,
}


class Mailbox(socketserver.ThreadingTCPServer):
    """A mail server on loopback that delivers to the inbox, and nowhere else."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        super().__init__(("127.0.0.1", 0), _Session)

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Session(socketserver.StreamRequestHandler):
    """One SMTP conversation (RFC 5321), without extensions."""

    server: Mailbox  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = _TIMEOUT_SECONDS

    def handle(self) -> None:
        self._send("220 demo")
        recipients: list[str] = []
        while line := self.rfile.readline(4096):
            verb, _, rest = line.decode("latin-1").strip().partition(" ")
            verb = verb.upper()
            if verb == "QUIT":
                self._send("221 bye")
                return
            if verb == "RCPT":
                recipients.append(rest.partition(":")[2].strip(" <>"))
            if verb == "DATA":
                self._send("354 go on")
                self.server.inbox.add(_mail(self._data(), recipients))
                recipients = []
            self._send("250 ok")

    def _data(self) -> bytes:
        lines: list[bytes] = []
        size = 0
        while (line := self.rfile.readline(4096)) not in (b".\r\n", b""):
            size += len(line)
            if size <= _LARGEST:
                lines.append(line[1:] if line.startswith(b"..") else line)
        return b"".join(lines)

    def _send(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


def _mail(content: bytes, recipients: Sequence[str]) -> Message:
    parsed = email.message_from_bytes(content, policy=email.policy.default)
    body = parsed.get_body(("plain", "html"))
    text = str(body.get_content()) if body else ""
    text = "\n".join(text.strip().splitlines())
    return Message(time.time(), "mail", ", ".join(recipients), str(parsed["Subject"] or ""), text)
