"""Options about the machine around the GPUs are named where there is none."""

from __future__ import annotations

import logging

import pytest

from exporter.config.load import load
from exporter.config.option import options_of
from exporter.daemon import assembly, config
from exporter.daemon.config import DaemonConfig

SIMULATED = ("--simulate", "1xT4")


def said(log: pytest.LogCaptureFixture, *options: str) -> list[str]:
    with log.at_level(logging.WARNING):
        assembly.assemble(load(DaemonConfig, options, {}), lambda _: None)
    return [record.getMessage() for record in log.records]


def test_options_that_do_nothing_are_named(caplog: pytest.LogCaptureFixture) -> None:
    options = ("--progress.socket", "/run/x.sock", "--attribution.kubernetes.api", "--path.procfs=/host/proc")

    assert said(caplog, *SIMULATED, *options) == [
        "--simulate: without effect beside it: --path.procfs, --attribution.kubernetes.api, --progress.socket"
    ]


@pytest.mark.parametrize(
    "options",
    [
        SIMULATED,
        (*SIMULATED, "--attribution.kubernetes.pod-labels=app", "--process.limit=3", "--path.procfs=/proc"),
        ("--progress.socket", "/run/x.sock"),
    ],
)
def test_nothing_is_said_of_options_that_work(caplog: pytest.LogCaptureFixture, options: tuple[str, ...]) -> None:
    assert said(caplog, *options) == []


def test_every_pattern_is_of_an_option() -> None:
    names = {option.name for option in options_of(DaemonConfig)}

    assert all(config.matching(pattern, names) for pattern in config.IGNORED_OPTIONS)
