"""`gpu-exporter check`: the verdict on this node's GPUs, for health checks."""

from __future__ import annotations

import os
import socket
import sys
import time
from dataclasses import replace
from typing import cast

from exporter.config import logs
from exporter.config.command_line import Page
from exporter.config.logs import print_error
from exporter.config.option import ConfigError
from exporter.core.clock import MonotonicTime, monotonic_time, unix_time
from exporter.daemon import assembly
from exporter.faults.evaluate import AFTER_A_JOB, STAGES, Report, Stage, evaluate, unknown_report
from exporter.faults.latch import LOST_AFTER_SECONDS
from exporter.faults.model import FaultKind
from exporter.faults.rule import Facts, Finding, Limits, Verdict
from exporter.faults.rules import RULES
from exporter.faults.watch import FaultTracker
from exporter.host.text import read_text
from exporter.sampling.host_view import Host, Simulation
from exporter.tools.check import drain, program
from exporter.tools.check.options import CheckConfig, HealthConfig
from exporter.tools.check.reading import (
    ChildError,
    PciHost,
    constraining_job,
    from_json,
    gres_devices,
    in_child_process,
    job_gpus,
    read_node,
    seen_within,
)
from exporter.tools.check.render import FORMATS, short
from exporter.tools.report.terminal import paint

PAGE = Page(
    "gpu-exporter check",
    "Verdict on this node's GPUs: ok, degraded or failed, with reasons and what NVIDIA advises.",
    """\
exit status:
  0 ok   1 degraded   2 failed
  3 unknown: no verdict could be made, or a wrong option
  (as Nagios has them; a typing error must never look like a failed GPU)
  --format npd: 0 no problem   1 problem   2 unknown

examples:
  gpu-exporter check
  gpu-exporter check --expect.gpus 8 --format json
  gpu-exporter check --check.url http://127.0.0.1:9836/metrics --format nagios
  gpu-exporter check --drain --check.fail-on degraded
  gpu-exporter check --check.stage epilog
  gpu-exporter check --check.stage full --check.program 'dcgmi diag -r 2'
""",
    common=("Check", "Slurm", "Input"),
)
_UNKNOWN = int(Verdict.UNKNOWN)
_MAX_READ_SECONDS = 60.0
"""Seconds one read of the driver may take, however long the stage is."""
_PAUSE = 1.0
"""Seconds between two searches for processes that are still ending."""
_RECHECK_SECONDS = 2.0
"""The least time that is left for a second check."""
_AMPLE = 3
"""A further check needs this many times as long as the one before: one that is cut short finds GPUs that are late."""
_NPD_PROBLEM, _NPD_UNKNOWN = 1, 2


def run(config: CheckConfig) -> int:
    """Status as in the page above."""
    log = config.daemon.log
    try:
        _refuse_options(config)
        logs.configure(replace(log, level="error") if log.level == "info" else log)
        report = _make_report(config)
    except ConfigError as error:
        print_error(str(error))
        return _UNKNOWN
    failed = _check_fails(config.check, report)
    if config.drain.on and report.verdict is not Verdict.UNKNOWN:
        _keep_in_step(config, report)
    sys.stdout.write(FORMATS[config.format](report, paint(sys.stdout)))
    if config.format != "npd":
        return int(report.verdict)
    if report.verdict is Verdict.UNKNOWN:
        return _NPD_UNKNOWN
    return _NPD_PROBLEM if failed else 0


def _check_fails(check: HealthConfig, report: Report) -> bool:
    return report.verdict is not Verdict.UNKNOWN and report.verdict >= Verdict[check.fail_on.upper()]


def _refuse_options(config: CheckConfig) -> None:
    check, made_up = config.check, config.daemon.input.simulate or config.daemon.input.capture
    if config.drain.on and made_up:
        raise ConfigError("--drain: a node is not drained for GPUs that are simulated or recorded")
    if check.program and check.stage != "full":
        raise ConfigError("--check.program: expected with --check.stage=full, the only one that has the time")
    if check.url and STAGES[check.stage].emptied:
        raise ConfigError("--check.url: an exporter's last reading is too old to say that a GPU is empty: leave it out")
    if check.url and made_up:
        raise ConfigError("--check.url and --simulate or --driver.capture: expected one of them")


def _make_report(config: CheckConfig) -> Report:
    check, stage = config.check, STAGES[config.check.stage]
    end = monotonic_time() + (check.deadline or stage.budget)
    report = _await_empty(config, stage, end)
    if report.losses and not config.daemon.input.capture:
        end += 0.0 if check.deadline else LOST_AFTER_SECONDS
        report = _confirm_report(report, config, stage, end)
    if not (stage.program and check.program):
        return report
    try:
        found = program.finding_of(check.program, end - monotonic_time())
    except program.NotRunError as error:  # a slip of the key, or not installed: no reason to drain a cluster
        return report if report.verdict is Verdict.FAILED else unknown_report(f"--check.program: {error}")
    return report.with_finding(found) if found else report


def _confirm_report(first: Report, config: CheckConfig, stage: Stage, end: MonotonicTime) -> Report:
    """Check again after the grace that a GPU reset gets: a loss counts if both checks found it.

    Without the time for a second check, the first one is returned, unconfirmed.
    """
    if monotonic_time() + LOST_AFTER_SECONDS + _RECHECK_SECONDS > end:
        return replace(first, confirmed=False)
    time.sleep(LOST_AFTER_SECONDS)  # no event reports that a reset has ended
    second = _await_empty(config, stage, end)
    return replace(second, confirmed=second.losses <= first.losses)


def _await_empty(config: CheckConfig, stage: Stage, end: MonotonicTime) -> Report:
    """A process that was asked to end takes its time: asked again while nothing else is wrong and there is time.

    Only the first check has the time to say that the driver hangs: of a later one that finds no end, what was found
    before it holds.
    """
    last = None
    while True:
        began = monotonic_time()
        report = _check_once(config, stage, end - began)
        if report is None:
            return last or _hang_report(f"no answer within {min(end - began, _MAX_READ_SECONDS):.3g} s")
        took = monotonic_time() - began
        ends = stage.emptied and not config.daemon.input.capture  # what was recorded does not end
        waits = ends and {finding.rule for finding in report.findings} & AFTER_A_JOB
        if not waits or monotonic_time() + _AMPLE * took + _PAUSE > end - (stage.budget / 2 if stage.program else 0):
            return report
        last = report
        time.sleep(_PAUSE)  # the processes are not ours: nothing reports when they end


def _check_once(config: CheckConfig, stage: Stage, seconds: float) -> Report | None:
    """None where no answer came within `seconds`."""
    check, daemon = config.check, config.daemon
    limits = Limits(
        gpus=daemon.faults.expect_gpus,
        margin=check.margin,
        hot=check.hot,
        reference=daemon.faults.expect_reference,
        link_errors=check.link_errors,
        emptied=job_gpus(os.environ, gres_devices(daemon)) if check.stage == "epilog" else None,
        job=os.environ.get("SLURM_JOB_ID", ""),
        allowed=check.allow,
    )

    def verdict(facts: Facts) -> Report:
        return evaluate(facts, limits, stage.left_out | set(check.ignore), stage.least)

    if check.url:
        from exporter.tools.check import exporter_page  # noqa: PLC0415 - 70 ms of CPU for the HTTP library and the parser

        return exporter_page.read(check.url, seconds, verdict)
    driver = assembly.driver_of(daemon)
    host = Host() if daemon.input.capture else PciHost(daemon.paths.sysfs, daemon.paths.procfs)
    if daemon.input.simulate:
        host = cast("Simulation", driver).host()
    collectors = daemon.collectors.enabled
    kmsg = None if driver.simulated else daemon.paths.kmsg
    deadline = min(seconds, _MAX_READ_SECONDS)
    faults = FaultTracker(assembly.fault_site(daemon, driver, read_only=True))
    try:
        found = in_child_process(lambda: read_node(driver, host, collectors, kmsg, deadline, faults), deadline)
    except ChildError as error:
        return _hang_report(str(error)) if error.crashed else unknown_report(str(error))
    if found is None:
        return None
    facts = from_json(found, unix_time())
    own = constraining_job(read_text(f"{daemon.paths.procfs}/self/cgroup"))
    return seen_within(verdict(facts), facts, "" if driver.simulated else own)


def _hang_report(why: str) -> Report:
    rule = next(rule for rule in RULES if rule.name == "driver_hangs")
    reason = f"{rule.text}: {why}"
    texts = (reason, rule.action, rule.short, rule.hands, rule.confirm, rule.runbook)
    finding = Finding(rule.name, rule.verdict, "", "", *texts)
    return Report(Verdict.FAILED, (finding,), 0, ())


def _keep_in_step(config: CheckConfig, report: Report) -> None:
    """Drain the node for what is proven. Count a good check only if the stage asks enough, and nothing was found."""
    proven = report.without_unconfirmed()
    failed = _check_fails(config.check, proven)
    late = any(finding.rule == FaultKind.SLOW.value for finding in report.findings)  # what it would say is not known
    good = not late and not _check_fails(config.check, report) and STAGES[config.check.stage].resumes
    if failed or good:
        _drain_node(config, proven, failed=failed)


def _drain_node(config: CheckConfig, report: Report, *, failed: bool) -> None:
    node = config.drain.node or os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    if report.simulated:
        print_error("--drain: the exporter's GPUs are simulated: nothing is drained")
        return
    try:
        run = drain.scontrol(config.daemon.attribution.slurm.scontrol)
        worst = Verdict[config.check.fail_on.upper()]
        hands = any(finding.hands for finding in report.findings if finding.verdict >= worst)
        fault = drain.DrainMarker(short(report, worst), hands=hands) if failed else None
        act = drain.follow(node, fault, run, config.drain.good_checks)
    except drain.SlurmError as error:
        print_error(f"--drain: {error}")
        return
    if act in {drain.Act.DRAIN, drain.Act.RESUME}:
        sys.stderr.write(f"gpu-exporter: {act.value} of node {node}\n")
