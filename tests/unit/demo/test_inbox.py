"""What the demo receives in place of people: mail, pages, tickets, chat."""

from __future__ import annotations

import json
import smtplib
import threading
from email.message import EmailMessage

import pytest

from deploy.demo.inbox import Inbox, Mailbox, Message, from_http


def test_mail_arrives_as_it_was_sent() -> None:
    came = threading.Event()
    inbox = Inbox(lambda _: came.set())
    with Mailbox(inbox) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        mail = EmailMessage()
        mail["Subject"], mail["From"], mail["To"] = "GPU 2 is lost", "gpu@example.org", "ada@example.org"
        mail.set_content("It holds 2 GPUs.\n.\nDots stay: ü")
        with smtplib.SMTP("127.0.0.1", server.port, timeout=10) as client:
            client.send_message(mail)
        assert came.wait(10)
        server.shutdown()
        thread.join()
    (message,) = inbox.messages()
    assert (message.kind, message.to, message.subject) == ("mail", "ada@example.org", "GPU 2 is lost")
    assert message.text == "It holds 2 GPUs.\n.\nDots stay: ü"


def test_a_page_shows_what_on_call_reads() -> None:
    body = {"event_action": "trigger", "payload": {"summary": "XID 79", "custom_details": {"text": "reset it\n"}}}
    message = from_http("page", json.dumps(body).encode())
    assert (message.kind, message.subject, message.text) == ("page", "XID 79", "reset it")
    assert from_http("page", json.dumps(body | {"event_action": "resolve"}).encode()).subject == "Resolved: XID 79"


def test_a_ticket_of_several_alerts_names_the_first_and_how_many_more() -> None:
    alerts = [{"annotations": {"summary": name, "description": "d", "runbook_url": "u"}} for name in ("one", "two")]
    message = from_http("ticket", json.dumps({"status": "firing", "alerts": alerts}).encode())
    assert message.subject == "one (and 1 more)"


@pytest.mark.parametrize(("kind", "body"), [("page", b"not json"), ("fax", b"{}")])
def test_what_is_no_message_is_refused(kind: str, body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_http(kind, body)


def test_the_inbox_forgets_the_oldest() -> None:
    inbox = Inbox(lambda _: None)
    for number in range(205):
        inbox.add(Message(0.0, "mail", "a", str(number), ""))
    assert [message.subject for message in inbox.messages()][::199] == ["204", "5"]
