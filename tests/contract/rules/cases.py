"""All cases."""

from __future__ import annotations

from tests.contract.rules import cases_exporter, cases_hardware, cases_workload

CASES = (*cases_workload.CASES, *cases_hardware.CASES, *cases_exporter.CASES)
