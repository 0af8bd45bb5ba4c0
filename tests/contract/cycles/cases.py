"""All cases, and which families of the page are looked at in each."""

from __future__ import annotations

from tests.contract.cycles import cases_node as node
from tests.contract.cycles import cases_owners as owners
from tests.contract.cycles.case import LEDGER, NODE, OWNERS, Case

_REPORTED = "gpu_workload_(?!gpu_s|energy|busy).*"

CASES = (
    Case(owners.two_owners_of_two_gpus, (*OWNERS, *LEDGER, "gpu_exporter_attr.*", "gpu_unallocated_use")),
    Case(owners.owners_that_are_accounted, ("gpu_owner_.*", "gpu_exporter_accounting.*")),
    Case(owners.more_processes_than_are_shown, ("gpu_process_.*", "gpu_exporter_series.*")),
    Case(owners.job_that_starts, (*LEDGER, "gpu_workload_(time|start|idle).*")),
    Case(owners.job_that_ends, (*OWNERS, *LEDGER)),
    Case(owners.job_that_is_forgotten, (*OWNERS, *LEDGER)),
    Case(owners.energy_counter_that_was_reset, LEDGER),
    Case(owners.instances, ("gpu_mig_.*", "gpu_allocation_ratio", *LEDGER, "gpu_workload_allocated_gpus")),
    Case(owners.busy_in_five_ways, ("gpu_state_seconds_total", "gpu_.*link.*", "gpu_pcie_.*")),
    Case(owners.too_hot, ("gpu_throttle.*", *LEDGER)),
    Case(node.idle_node, (*NODE, "gpu_state_seconds_total", "gpu_workload_.*", "gpu_allocation.*", "gpu_expected.*")),
    Case(node.idle_gpus_that_are_not_well, ("gpu_memory_(un|us|sh|to).*", "gpu_utilization_stuck", "gpu_finding")),
    Case(node.driver_that_is_not_there, (*NODE, "gpu_scrape_collector_success")),
    Case(node.node_with_a_past, ("gpu_f[ai].*", "gpu_expected.*", "gpu_node.*", "gpu_exporter_(node|fault).*")),
    Case(node.acknowledged_fault, ("gpu_fault.*", "gpu_finding")),
    Case(node.state_file_of_a_newer_version, ("gpu_fault.*", "gpu_exporter_fault.*")),
    Case(
        node.gpu_that_falls_off_the_bus,
        ("gpu_.*(watts|_info|_up|_total|timestamp_.*|age_.*)", "gpu_devices"),
    ),
    Case(
        node.calls_that_fail,
        ("gpu_(clock|power|temp|perf|pcie|energy).*", "gpu_scrape_collector_success", "gpu_exporter_readings.*"),
    ),
    Case(
        node.what_programs_report,
        (_REPORTED, "gpu_rdma.*", "gpu_xid.*", "gpu_nvsw.*", "gpu_fault.*", "gpu_exporter_(xid|progress).*"),
    ),
    Case(node.cycles_that_stopped, (*OWNERS, *LEDGER, *NODE)),
)
