"""Which folders are mutated, by which tests their mutants are hunted, and how many must be killed."""

from __future__ import annotations

from typing import NamedTuple


class Room(NamedTuple):
    """`least` is the share of a sample that must be killed; those named as equivalent are not counted."""

    tests: tuple[str, ...]
    least: float
    without: tuple[str, ...] = ()
    """Patterns of files that are left out: what tests run in processes of their own cannot be seen to be reached."""


ROOMS = {
    "ledger": Room(("tests/unit/ledger", "tests/contract/ledger", "tests/contract/cycles"), 0.9),
    "sampling": Room(
        (
            "tests/unit/sampling",
            "tests/unit/host/test_freezer.py",
            "tests/unit/host/test_kernel_log.py",
            "tests/unit/host/test_network_ports.py",
            "tests/unit/host/test_reader.py",
            "tests/unit/host/test_signals.py",
            "tests/contract/cycles",
            "tests/contract/ledger",
            "tests/contract/test_captures.py",
            "tests/contract/test_reference.py",
        ),
        0.9,
    ),
    "attribution": Room(
        (
            "tests/unit/attribution",
            "tests/contract/attribution",
            "tests/unit/collectors/test_gpu_processes.py",
            "tests/unit/faults/test_kubernetes_node.py",
        ),
        0.9,
    ),
    "collectors": Room(
        ("tests/unit/collectors", "tests/unit/sampling/test_cached_reading.py", "tests/contract/test_captures.py"), 0.9
    ),
    "tools/report": Room(
        (
            "tests/unit/report",
            "tests/contract/report",
            "tests/unit/summaries",
            "tests/unit/attribution/test_forged_lines.py",
            "tests/unit/accounting/test_showback.py",
        ),
        0.9,
        without=("exporter/tools/report/accounting/*",),
    ),
    "tools/report/accounting": Room(
        ("tests/unit/accounting", "tests/unit/summaries/test_sacct.py", "tests/unit/report/test_cpu_jobs.py"), 0.9
    ),
    "accounting": Room(("tests/unit/accounting",), 0.9),
    "tools/check": Room(("tests/unit/check", "tests/unit/cli/test_acknowledge.py"), 0.9),
    "web": Room(("tests/unit/web", "tests/contract/web"), 0.9),
    "faults": Room(
        (
            "tests/unit/faults",
            "tests/unit/check/test_cleared.py",
            "tests/unit/check/test_findings_texts.py",
            "tests/unit/check/test_render.py",
            "tests/unit/check/test_rules.py",
            "tests/unit/check/test_runbooks.py",
            "tests/unit/check/test_verdict.py",
            "tests/contract/cycles",
        ),
        0.9,
    ),
    "exposition": Room(
        ("tests/unit/exposition", "tests/contract/test_exposition.py", "tests/contract/test_hidden_metrics.py"), 0.9
    ),
    "progress": Room(
        (
            "tests/unit/progress",
            "tests/unit/ledger",
            "tests/unit/attribution/test_forged_lines.py",
            "tests/contract/cycles",
        ),
        0.9,
    ),
    "host": Room(("tests/unit/host",), 0.9),
    "config": Room(("tests/unit/config", "tests/unit/cli"), 0.9),
    "driver": Room(
        ("tests/unit/driver", "tests/unit/collectors", "tests/unit/capture", "tests/contract/test_captures.py"),
        0.9,
        without=("exporter/driver/nvml/*",),
    ),
    "tools/capture": Room(("tests/unit/capture", "tests/contract/test_captures.py"), 0.9),
    "core": Room(
        (
            "tests/unit/threads",
            "tests/unit/metrics",
            "tests/unit/host/test_printable.py",
            "tests/unit/host/test_site_yaml.py",
            "tests/unit/report/test_client.py",
            "tests/unit/report/test_fetch.py",
            "tests/unit/sampling/test_cached_reading.py",
            "tests/contract/test_exposition.py",
        ),
        0.9,
    ),
}
