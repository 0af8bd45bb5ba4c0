"""Prints, when all tests have ended, what they measured: `record_property("measured", "2.1 s from here to there")`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.depth import DEEP, EXAMPLES
from tests.fake_nvml.fixture import fake_nvml

# How long an example takes says how loaded the machine is, and nothing about the code.
settings.register_profile(
    "unhurried", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

__all__ = ["fake_nvml", "pytest_terminal_summary"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out the tests of files that start programs")
    parser.addoption("--update", action="store_true", help="write the stored texts anew that code must make again")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of one group share servers and an order: stop at once where pytest-xdist does not keep them together."""
    _leave_out_deep(config, items)
    if not getattr(config.option, "loadgroup", False):
        return
    torn = [item for item in items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
    if torn:
        raise pytest.UsageError(f"pytest-xdist does not group tests with this pytest, as {torn[0].nodeid}")


def _leave_out_deep(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `deep` run in `make test-deep`, and where they are named on the command line."""
    if config.getoption("--fast"):
        _leave_out(config, items, [item for item in items if _starts_programs(item)])
    named = any("::" in argument or argument.endswith(".py") for argument in config.args)
    if DEEP or named:
        return
    _leave_out(config, items, [item for item in items if item.get_closest_marker("deep")])


def _starts_programs(item: pytest.Item) -> bool:
    return hasattr(getattr(item, "module", None), "subprocess") or "fake_nvml" in getattr(item, "fixturenames", ())


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
    if lines:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(line)
