"""The page of a running exporter, read in place of the driver."""

from __future__ import annotations

from collections.abc import Callable

import requests
from prometheus_client.parser import text_string_to_metric_families

from exporter.config.kinds import without_password
from exporter.core.clock import UnixTime, monotonic_time, unix_time
from exporter.core.fetch import TooLargeError, fetched, innermost
from exporter.core.threads import run_with_timeout
from exporter.faults.evaluate import Report, unknown_report
from exporter.faults.rule import Facts, Series
from exporter.tools.report.terminal import progress_message

_MAX_PAGE_BYTES = 8 << 20
"""Bytes of an exporter's page, uncompressed: ten times that of a node of 16 GPUs."""
_ODD_FACTS_ERRORS = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError, RecursionError)
"""Exceptions of parsing and judging for series that this exporter never writes."""


def read(address: str, deadline: float, verdict: Callable[[Facts], Report]) -> Report:
    """Return the verdict on an exporter's page. One deadline covers download, parsing and judging."""
    url = without_password(address)

    def evaluated() -> Report:
        answer = fetched(
            lambda: requests.get(address, timeout=deadline, stream=True), end - monotonic_time(), _MAX_PAGE_BYTES
        )
        if answer.status >= requests.codes.bad_request:
            return unknown_report(f"{url} answers {answer.status}")
        return verdict(parse(answer.content.decode("utf-8", "replace"), unix_time()))

    end = monotonic_time() + deadline
    try:
        with progress_message(f"asking {url}"):
            return run_with_timeout(deadline, evaluated)
    except (TimeoutError, requests.Timeout):
        return unknown_report(f"{url}: no verdict within {deadline:.3g} s")
    except TooLargeError as error:
        return unknown_report(f"{url} {error}")
    except requests.RequestException as error:
        return unknown_report(f"{url} does not answer: {_short_error(error)}")
    except _ODD_FACTS_ERRORS:
        return unknown_report(f"{url} does not serve metrics: expected the address of an exporter's /metrics")


def _short_error(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return f"TLS: {innermost(error)}"
    return "no connection" if isinstance(error, requests.ConnectionError) else str(error)


def parse(text: str, time: UnixTime) -> Facts:
    """Facts from the text format of Prometheus. Raises ValueError where it is none."""
    found: dict[str, list[Series]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(Series(dict(sample.labels), float(sample.value)))
    return Facts({name: tuple(series) for name, series in found.items()}, time)
