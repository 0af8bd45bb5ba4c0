"""Cases of the alerts about the driver and the exporter."""

from __future__ import annotations

from tests.contract.rules.case import DEV, NODE, OTHER, OWNER, Case, fires, silent
from tests.contract.rules.series import finding, gauge

SECOND_NODE = NODE.replace("n1", "n2")


def node(name: str, values: str, more: str = "", where: str = NODE) -> dict[str, str]:
    return {f"{name}{{{where}{more}}}": values}


def capacity(where: str, resource: str) -> str:
    return f'kube_node_status_capacity{{cluster="c1",node="{where}",resource="{resource}",unit="integer"}}'


_ACCOUNTING = '{cluster="c1",instance="acct:9837",job="gpu-accounting"}'
_SLURM = ',source="slurm"'
CASES: tuple[Case, ...] = (
    fires(
        "GpuSampleStale",
        "one GPU hangs",
        "20m",
        {
            f"gpu_exporter_device_sample_age_seconds{{{DEV}}}": "1x10 60+60x20",
            f"gpu_exporter_device_sample_age_seconds{{{OTHER}}}": "1x30",
            f"gpu_up{{{DEV}}}": "1x30",
            f"gpu_workload_allocated_gpus{{{NODE},{OWNER}}}": "8x30",
        },
    ),
    fires(
        "GpuSampleStale",
        "a GPU that is late since the exporter started: it has no sample, and no age of one",
        "20m",
        {
            f'gpu_fault_timestamp_seconds{{{DEV},fault="gpu_slow",action="inspect",evidence="late answers"}}': "0x30",
            f"gpu_up{{{DEV}}}": "0x30",
        },
    ),
    fires("GpuSampleStale", "no cycles", "20m", node("gpu_exporter_sampling_cycles_total", "0+60x10 600x20")),
    fires(
        "GpuSampleStale",
        "cycles that ask no GPU: the thread that would cannot be started",
        "20m",
        node("gpu_exporter_sampling_cycles_total", "0+60x30")
        | node("gpu_exporter_thread_up", "1x10 0x20", ',thread="gpus-0"')
        | node("gpu_exporter_thread_up", "1x30", ',thread="sampler"'),
    ),
    silent(
        "GpuSampleStale",
        "a thread of the pages has failed, and one of the GPUs for a moment",
        "12m 20m",
        node("gpu_exporter_sampling_cycles_total", "0+60x30")
        | node("gpu_exporter_thread_up", "1x10 0x20", ',thread="web-page-0"')
        | node("gpu_exporter_thread_up", "1x10 0 1x20", ',thread="gpus-0"'),
    ),
    silent(
        "GpuSampleStale",
        "slow, but it answers",
        "20m",
        {f"gpu_exporter_device_sample_age_seconds{{{DEV}}}": "12x30"}
        | node("gpu_exporter_sampling_cycles_total", "0+5x30"),
    ),
    silent(
        "GpuSampleStale",
        "a lost GPU has an alert of its own",
        "20m",
        {f"gpu_exporter_device_sample_age_seconds{{{DEV}}}": "1x10 60+60x20", f"gpu_up{{{DEV}}}": "1x10 0x20"},
    ),
    silent(
        "GpuSampleStale",
        "the exporter has just restarted",
        "12m 20m",
        node("gpu_exporter_sampling_cycles_total", "9000x1 9000+60x9 0+60x20"),
    ),
    fires(
        "GpuDriverUnavailable",
        "an upgrade without a restart",
        "20m",
        node("gpu_exporter_driver_error", "_x10 1x20", ',error="LIB_RM_VERSION_MISMATCH"'),
    ),
    silent(
        "GpuDriverUnavailable",
        "an upgrade that ends in time",
        "13m 20m",
        node("gpu_exporter_driver_error", "_x10 1x4 _x20", ',error="LIB_RM_VERSION_MISMATCH"') | node("up", "1x40"),
    ),
    fires(
        "GpuDriverUnavailable",
        "a scrape fails meanwhile",
        "25m",
        node("gpu_exporter_driver_error", "_x10 1x4 stale 1x30", ',error="LIB_RM_VERSION_MISMATCH"')
        | node("up", "1x14 0 1x30"),
    ),
    fires(
        "GpuDriverUnavailable",
        "not loaded",
        "30m",
        node("gpu_exporter_driver_error", "_x10 1x30", ',error="DRIVER_NOT_LOADED"')
        | node("gpu_exporter_thread_up", "_x10 0x30", ',thread="driver"'),
    ),
    fires(
        "GpuDriverUnavailable",
        "nobody asked it: the thread that would cannot be started",
        "30m",
        node("gpu_exporter_driver_error", "_x10 1x30", ',error="NOT_OPENED"')
        | node("gpu_exporter_thread_up", "_x10 0x30", ',thread="driver"'),
    ),
    fires(
        "GpuDriverUnavailable",
        "it does not answer",
        "30m",
        node("gpu_exporter_driver_error", "_x10 1x30", ',error="NOT_OPENED"')
        | node("gpu_exporter_thread_up", "_x10 1x30", ',thread="driver"'),
    ),
    fires(
        "GpuDriverUnavailable",
        "the exporter may not open it",
        "30m",
        node("gpu_exporter_driver_error", "_x10 1x30", ',error="NO_PERMISSION"'),
    ),
    silent(
        "GpuDriverUnavailable",
        "the node is starting",
        "16m 30m",
        node("gpu_exporter_driver_error", "1x8 _x30", ',error="DRIVER_NOT_LOADED"') | node("up", "1x40"),
    ),
    fires(
        "GpuDriverUnavailable",
        "the exporter restarts in vain",
        "30m",
        node("gpu_exporter_driver_error", " ".join(["1 1 _x4"] * 7), ',error="LIBRARY_NOT_FOUND"')
        | node("up", " ".join(["1 1 0x3"] * 7)),
    ),
    silent(
        "GpuDriverUnavailable",
        "a restart brought it back",
        "12m 20m",
        node("gpu_exporter_driver_error", "1x3 _x30", ',error="LIBRARY_NOT_FOUND"') | node("up", "1x3 0 1x30"),
    ),
    fires(
        "GpuNodeWithoutExporter",
        "a node without the label",
        "30m",
        {capacity("n2", "nvidia_com_gpu"): "8x40"} | node("up", "1x40"),
    ),
    fires(
        "GpuNodeWithoutExporter",
        "where another program's job is named alike",
        "30m",
        {
            capacity("n2", "nvidia_com_gpu"): "8x40",
            'up{cluster="c1",job="nvidia-gpu-exporter",node="n2",instance="n2:9835"}': "1x40",
        }
        | node("up", "1x40"),
    ),
    silent(
        "GpuNodeWithoutExporter",
        "a node that is served, and one without GPUs",
        "30m",
        {
            capacity("n1", "nvidia_com_gpu"): "8x40",
            capacity("n2", "cpu"): "8x40",
            capacity("n3", "nvidia_com_gpu"): "0x40",
        }
        | node("up", "0x40"),
    ),
    silent(
        "GpuNodeWithoutExporter",
        "a cordoned node, in a driver upgrade for example",
        "30m",
        {
            capacity("n2", "nvidia_com_gpu"): "8x40",
            'kube_node_spec_unschedulable{cluster="c1",node="n2"}': "1x40",
        }
        | node("up", "1x40"),
    ),
    silent(
        "GpuNodeWithoutExporter",
        "a node that was shut down, and is told to be out of service",
        "30m",
        {
            capacity("n2", "nvidia_com_gpu"): "8x40",
            'kube_node_spec_taint{cluster="c1",node="n2",key="node.kubernetes.io/out-of-service"}': "1x40",
        }
        | node("up", "1x40"),
    ),
    silent(
        "GpuNodeWithoutExporter",
        "sixteen new nodes that are not ready yet",
        "17m 25m",
        {capacity(f"new{n}", "nvidia_com_gpu"): "_x5 8x40" for n in range(16)}
        | {f'kube_node_created{{cluster="c1",node="new{n}"}}': "_x5 300x40" for n in range(16)}
        | {
            f'kube_node_status_condition{{cluster="c1",node="new{n}",condition="Ready",status="true"}}': "_x5 0x40"
            for n in range(16)
        }
        | node("up", "1x50"),
    ),
    silent(
        "GpuNodeWithoutExporter",
        "exporters scraped without the name of their node",
        "30m",
        {
            capacity("n2", "nvidia_com_mig_1g_10gb"): "7x40",
            'up{cluster="c1",job="gpu-exporter",instance="10.0.0.7:9836"}': "1x40",
        },
    ),
    fires(
        "GpuDriverSkew",
        "two versions for two days",
        "2000m",
        node("gpu_driver_info", "1x2100", ',driver="570.1"')
        | node("gpu_driver_info", "1x2100", ',driver="575.2"', SECOND_NODE),
    ),
    silent(
        "GpuDriverSkew",
        "a rolling upgrade",
        "600m 2000m",
        node("gpu_driver_info", "1x2100", ',driver="575.2"')
        | node("gpu_driver_info", "1x700 _x1400", ',driver="570.1"', SECOND_NODE)
        | node("gpu_driver_info", "_x700 1x1400", ',driver="575.2"', SECOND_NODE),
    ),
    silent(
        "GpuDriverSkew",
        "two clusters",
        "2000m",
        node("gpu_driver_info", "1x2100", ',driver="570.1"')
        | node("gpu_driver_info", "1x2100", ',driver="575.2"', SECOND_NODE.replace("c1", "c2")),
    ),
    fires(
        "GpuSourceFailing",
        "the mapping cannot be read",
        "30m",
        node("gpu_exporter_attribution_success", "1x10 0x30", _SLURM),
    ),
    fires(
        "GpuSourceFailing",
        "two jobs that Slurm allocates one GPU",
        "30m",
        node("gpu_exporter_attribution_conflicts", "0x10 1x30", ',source="slurm_steps"'),
    ),
    fires(
        "GpuSourceFailing",
        "the scheduler counts other GPU time",
        "30m",
        {f"gpu_accounting_scheduler_difference_ratio{_ACCOUNTING}": "0x10 0.07x30"},
    ),
    fires(
        "GpuSourceFailing",
        "a day's recorded totals lack GPU time",
        "30m",
        {'cluster:gpu_accounting_difference:ratio{cluster="c1"}': "0x10 0.07x30"},
    ),
    silent(
        "GpuSourceFailing",
        "the scheduler counts a little more",
        "30m",
        {f"gpu_accounting_scheduler_difference_ratio{_ACCOUNTING}": "0.04x40"},
    ),
    silent(
        "GpuSourceFailing",
        "slurmctld resolves which of two jobs has ended, and a process of nobody's runs on another's GPU",
        "12m 30m",
        node("gpu_exporter_attribution_conflicts", "0x10 1x2 0x30", ',source="slurm_steps"')
        | node("gpu_exporter_attribution_conflicts", "1x60", ',source="slurm_mapping"'),
    ),
    silent(
        "GpuSourceFailing",
        "the kubelet restarts",
        "14m 30m",
        node("gpu_exporter_attribution_success", "1x10 0x5 1x30", ',source="kubernetes"'),
    ),
    fires(
        "GpuSourceFailing",
        "the role may not get nodes",
        "50m",
        node("gpu_exporter_node_source_success", "0x60", ',source="kubernetes"'),
    ),
    fires(
        "GpuSourceFailing",
        "a line that is no acknowledgement",
        "50m",
        node("gpu_exporter_node_source_success", "0x60", ',source="acknowledgements"'),
    ),
    silent(
        "GpuSourceFailing",
        "slurmctld restarts",
        "20m 50m",
        node("gpu_exporter_node_source_success", "1x10 0x10 1x40", ',source="slurm"'),
    ),
    fires(
        "GpuSourceFailing",
        "the folder of the state is read-only",
        "40m",
        node("gpu_exporter_fault_state_saved", "1x10 0x40"),
    ),
    fires(
        "GpuSourceFailing",
        "a state file of another version",
        "40m",
        node("gpu_exporter_faults_incomplete", "1x50", ',cause="version"')
        | node("gpu_exporter_fault_state_saved", "1x50"),
    ),
    silent(
        "GpuSourceFailing",
        "a disk is full for a moment",
        "24m 40m",
        node("gpu_exporter_fault_state_saved", "1x10 0x10 1x30"),
    ),
    fires("GpuSourceFailing", "a stuck utilization", "40m", finding("utilization_stuck", "1x50")),
    fires(
        "GpuSourceFailing",
        "gres.conf and Kubernetes contradict each other",
        "40m",
        node("gpu_finding", "1x50", ',finding="inventory",severity="degraded"'),
    ),
    silent(
        "GpuSourceFailing",
        "the GPU itself is down",
        "40m",
        node("gpu_scrape_collector_success", "0x50", ',collector="power"') | gauge("gpu_up", "0x50"),
    ),
    silent("GpuSourceFailing", "another finding", "40m", finding("hw_thermal", "1x50")),
    fires("GpuSourceFailing", "for long", "40m", node("gpu_scrape_collector_success", "1x10 0x40", ',collector="ecc"')),
    fires(
        "GpuSourceFailing",
        "no XID is heard of",
        "40m",
        node("gpu_exporter_xid_source_up", "1x10 0x40", ',source="nvml"')
        | node("gpu_exporter_xid_source_up", "0x50", ',source="kmsg"')
        | node("gpu_scrape_collector_success", "1x50", ',collector="xid"'),
    ),
    silent(
        "GpuSourceFailing",
        "the kernel log may not be read, and the driver tells of XIDs",
        "40m",
        node("gpu_exporter_xid_source_up", "1x50", ',source="nvml"')
        | node("gpu_exporter_xid_source_up", "0x50", ',source="kmsg"'),
    ),
    silent(
        "GpuSourceFailing",
        "now and then",
        "25m 40m",
        node("gpu_scrape_collector_success", "1x10 0x9 1 0x9 1x40", ',collector="ecc"'),
    ),
    fires("GpuExporterSimulated", "left on", "20m", node("gpu_exporter_simulated", "1x30")),
    silent("GpuExporterSimulated", "a trial of minutes", "13m", node("gpu_exporter_simulated", "0x10 1x30")),
    silent("GpuExporterSimulated", "real", "20m", node("gpu_exporter_simulated", "0x30")),
    fires(
        "GpuNodeMaintenance",
        "cordoned",
        "20m",
        node("up", "1x30") | {'kube_node_spec_unschedulable{cluster="c1",node="n1"}': "0x10 1x20"},
    ),
    fires(
        "GpuNodeMaintenance",
        "a drained Slurm node that was switched off",
        "20m",
        node("up", "0x30") | {'instance:gpu_node_maintenance:last{cluster="c1",node="n1",instance="n1:9836"}': "1x30"},
    ),
    silent(
        "GpuNodeMaintenance",
        "another node is cordoned",
        "20m",
        node("up", "1x30") | {'kube_node_spec_unschedulable{cluster="c1",node="n2"}': "1x30"},
    ),
    silent(
        "GpuNodeMaintenance",
        "uncordoned",
        "20m",
        node("up", "1x30") | {'kube_node_spec_unschedulable{cluster="c1",node="n1"}': "0x30"},
    ),
)
