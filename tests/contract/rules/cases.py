"""All cases."""

from __future__ import annotations

from tests.contract.rules import (
    cases_exporter,
    cases_fabric,
    cases_fleet,
    cases_hardware,
    cases_heat,
    cases_incident,
    cases_links,
    cases_outages,
    cases_pods,
    cases_ranks,
    cases_targets,
    cases_waste,
    cases_workload,
    cases_xids,
)

CASES = (
    *cases_workload.CASES,
    *cases_xids.CASES,
    *cases_pods.CASES,
    *cases_waste.CASES,
    *cases_ranks.CASES,
    *cases_heat.CASES,
    *cases_hardware.CASES,
    *cases_outages.CASES,
    *cases_links.CASES,
    *cases_fabric.CASES,
    *cases_exporter.CASES,
    *cases_fleet.CASES,
    *cases_targets.CASES,
    *cases_incident.CASES,
)
