"""Prints, when all tests have ended, what they measured: `record_property("measured", "2.1 s from here to there")`.

And which of them had to be run twice.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from deploy.prometheus import pages
from tests import order
from tests.depth import DEEP, EXAMPLES
from tests.fake_nvml.fixture import fake_nvml

# Faults of a fake driver are not this machine's: its own state is neither read nor written.
os.environ["GPU_EXPORTER_STATE_DIR"] = ""

# Prometheus' programs and Helm, which end after seconds, spend a fifth less on collecting what they do not use.
os.environ.setdefault("GOGC", "400")

# How long an example takes says how loaded the machine is, and nothing about the code.
settings.register_profile(
    "unhurried", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

# A checkout has the runbooks as Markdown alone.
pages.write(pages.ROOT / pages.SERVED)

__all__ = ["fake_nvml", "pytest_terminal_summary"]

NEED_SDK = (
    "contract/dashboards/test_dashboard_files.py",
    "contract/report/test_waste_queries.py",
    "panels/test_absence.py",
)
"""Tests of the code that makes the dashboards; the others read the committed JSON."""
HAS_SDK = importlib.util.find_spec("grafana_foundation_sdk") is not None
collect_ignore = [] if HAS_SDK else list(NEED_SDK)


def pytest_report_header() -> str:
    return "" if HAS_SDK else f"left out, as Grafana's SDK needs Python 3.11: {', '.join(NEED_SDK)}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out the tests of files that start programs")
    parser.addoption("--update", action="store_true", help="write the stored texts anew that code must make again")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of one group share servers and an order: stop at once where pytest-xdist does not keep them together."""
    _leave_out_deep(config, items)
    _run_again(config, items)
    if not getattr(config.option, "loadgroup", False):
        return
    torn = [item for item in items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
    if torn:
        raise pytest.UsageError(f"pytest-xdist does not group tests with this pytest, as {torn[0].nodeid}")
    items.sort(key=lambda item: order.rank(item, waits=_starts_programs(item) or _waits(_module(item))))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return order.scheduler(config, log)


def _run_again(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that waits for programs or threads and failed is run once more, and the end of the run tells of it.

    A machine that stalls for seconds fails such a test, a fault in the code fails it twice. Not so what is named on the
    command line: there the first failure is what one wants to see.
    """
    if not config.pluginmanager.hasplugin("rerunfailures") or _is_named(config):
        return
    for item in items:
        if _starts_programs(item) or _waits(_module(item)):
            item.add_marker(pytest.mark.flaky(reruns=1))


def _is_named(config: pytest.Config) -> bool:
    return any("::" in argument or argument.endswith(".py") for argument in config.args)


@functools.cache
def _waits(module: ModuleType | None) -> bool:
    """Whether it, or a helper that it imports from another file of the tests, waits for threads or programs."""
    homes = {getattr(value, "__module__", "") for value in vars(module).values()} if module else set()
    helpers = (sys.modules.get(home) for home in homes if home and home.startswith("tests."))
    names = ("threading", "until", "becomes", "socket", "subprocess")
    return any(hasattr(each, name) for each in (module, *helpers) for name in names)


def _leave_out_deep(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `deep` run in `make test-deep`, and where they are named on the command line."""
    if config.getoption("--fast"):
        _leave_out(config, items, [item for item in items if _starts_programs(item)])
    if DEEP or _is_named(config):
        return
    _leave_out(config, items, [item for item in items if item.get_closest_marker("deep")])


def _starts_programs(item: pytest.Item) -> bool:
    return hasattr(_module(item), "subprocess") or "fake_nvml" in getattr(item, "fixturenames", ())


def _module(item: pytest.Item) -> ModuleType | None:
    return getattr(item, "module", None)


def _leave_out(config: pytest.Config, items: list[pytest.Item], left: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = (report for reports in terminalreporter.stats.values() for report in reports)
    lines = sorted(
        f"{report.nodeid.split('::')[-1]}: {text}"
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, text in report.user_properties
        if name == "measured"
    )
    _section(terminalreporter, "measured", lines)
    again = [_first_failure(report) for report in terminalreporter.stats.get("rerun", ())]
    _section(terminalreporter, "failed once, and were run again", again)


def _section(terminalreporter: pytest.TerminalReporter, title: str, lines: list[str]) -> None:
    if lines:
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


def _first_failure(report: pytest.TestReport) -> str:
    message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
    return f"{report.nodeid}: {message[:300]}"
