"""Families of the node and of the exporter itself: always there, whatever failed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable

from exporter import __version__
from exporter.exposition.snapshot import GpuStatus, NodeStatus
from exporter.metrics.family import AnyFamily, Family, Sample, Type, Unit, by

DRIVER_LABELS = ("driver", "nvml", "cuda")


def _node(
    name: str, help: str, unit: Unit, value: Callable[[NodeStatus], float | None], type: Type = Type.GAUGE
) -> Family[NodeStatus]:
    def samples(status: NodeStatus) -> Iterable[Sample]:
        number = value(status)
        return () if number is None else (Sample(number),)

    return Family(name=name, help=help, type=type, unit=unit, samples=samples, prefix=())


def _labelled(
    name: str,
    help: str,
    label: str,
    pairs: Callable[[NodeStatus], Iterable[tuple[str, float | None]]],
    unit: Unit = Unit.NONE,
    type: Type = Type.GAUGE,
) -> Family[NodeStatus]:
    return Family(name=name, help=help, type=type, unit=unit, labels=(label,), samples=by(pairs), prefix=())


def _per_gpu(name: str, help: str, unit: Unit, value: Callable[[GpuStatus], float | None]) -> Family[NodeStatus]:
    def samples(status: NodeStatus) -> Iterable[Sample]:
        for gpu in status.gpus:
            number = value(gpu)
            if number is not None:
                yield Sample(number, (str(gpu.index), gpu.uuid))

    return Family(name=name, help=help, type=Type.GAUGE, unit=unit, labels=("gpu", "uuid"), samples=samples, prefix=())


def _driver(status: NodeStatus) -> Iterable[Sample]:
    return (Sample(1, (status.driver, status.nvml, status.cuda)),) if status.driver else ()


def _build(_: NodeStatus) -> Iterable[Sample]:
    return (Sample(1, (__version__, platform.python_version())),)


def _unresolved(status: NodeStatus) -> Iterable[Sample]:
    return (Sample(count, (h.source, reason)) for h in status.sources for reason, count in h.unresolved.items())


# fmt: off
NODE_FAMILIES: tuple[AnyFamily, ...] = (
    _per_gpu("gpu_up", "Whether the GPU answers; 0 when its driver says it is lost, or is silent for `--sample.stale`.", Unit.NONE, lambda g: g.up),
    _per_gpu("gpu_memory_unattributed_bytes", "Memory in use that no process accounts for: leaked, or held by processes out of sight.", Unit.BYTES, lambda g: g.unattributed_bytes),
    _labelled("gpu_devices", "GPUs of this node that the driver gives a handle for, that it counts (enumerated), and that the PCI bus shows; fewer by driver is a lost GPU.", "source", lambda s: (("driver", s.driver_gpus), ("enumerated", s.enumerated_gpus), ("pci", s.pci_gpus))),
    Family(name="gpu_driver_info", help="Versions of the driver, of NVML and of CUDA.", type=Type.INFO, unit=Unit.NONE, labels=DRIVER_LABELS, samples=_driver, prefix=()),
    Family(name="gpu_exporter_build_info", help="Version of this exporter and of its Python.", type=Type.INFO, unit=Unit.NONE, labels=("version", "python"), samples=_build, prefix=()),
    _node("gpu_exporter_simulated", "1 when the GPUs are simulated, or replayed from a capture.", Unit.NONE, lambda s: s.simulated),
    _labelled("gpu_exporter_driver_error", "1 while the driver is not available, with NVML's code for the reason; absent while it is.", "error", lambda s: ((s.driver_error, 1.0),) if s.driver_error else ()),
    _labelled("gpu_scrape_collector_success", "Whether the collector's last read succeeded on every GPU, with every answer it had before.", "collector", lambda s: ((c.name, c.success) for c in s.collectors)),
    _labelled("gpu_scrape_collector_duration_seconds", "Time the collector's last read took, over all GPUs.", "collector", lambda s: ((c.name, c.seconds) for c in s.collectors), Unit.SECONDS),
    _labelled("gpu_exporter_readings_rejected_total", "Answers of the driver that cannot be true (out of range, or a counter that leapt or fell back for a moment) and were left out.", "collector", lambda s: ((c.name, c.rejected) for c in s.collectors), type=Type.COUNTER),
    _node("gpu_exporter_last_sample_timestamp_seconds", "Unix time of the pass these metrics come from.", Unit.SECONDS, lambda s: float(s.time) or None),
    _node("gpu_exporter_sample_interval_seconds", "Time between two passes, as configured.", Unit.SECONDS, lambda s: s.interval),
    _node("gpu_exporter_pass_duration_seconds", "Time the last pass took, waiting for the GPUs included.", Unit.SECONDS, lambda s: s.pass_seconds),
    _node("gpu_exporter_passes_total", "Passes ended since the start.", Unit.NONE, lambda s: s.passes, Type.COUNTER),
    _node("gpu_exporter_driver_calls_total", "Calls made to the driver library since the start.", Unit.NONE, lambda s: s.driver_calls, Type.COUNTER),
    _per_gpu("gpu_exporter_device_sample_age_seconds", "Time since the GPU last answered.", Unit.SECONDS, lambda g: g.age if g.age != float("inf") else None),
    _labelled("gpu_exporter_attribution_success", "Whether the attribution source answered last time it was asked.", "source", lambda s: ((h.source, h.success) for h in s.sources)),
    _labelled("gpu_exporter_attribution_age_seconds", "Age of the source's last good answer.", "source", lambda s: ((h.source, h.age if h.age != float("inf") else None) for h in s.sources), Unit.SECONDS),
    _labelled("gpu_exporter_attribution_conflicts", "Processes or GPUs for which this source contradicts one of higher trust.", "source", lambda s: ((h.source, h.conflicts) for h in s.sources)),
    Family(name="gpu_exporter_attribution_unresolved_devices", help="Devices that this source says were given to somebody and that were not found among this node's GPUs, by reason: an id of an unknown kind, a MIG instance told by its place alone (DRA), a device that the driver does not show.", type=Type.GAUGE, unit=Unit.NONE, labels=("source", "reason"), samples=_unresolved, prefix=()),
    _labelled("gpu_exporter_attribution_stale", "Ended jobs of which something is left on this node (the prolog's file, a cgroup); they hold nothing.", "source", lambda s: ((h.source, h.stale) for h in s.sources)),
    _labelled("gpu_exporter_xid_source_up", "Whether XIDs are heard of from this source: the driver's events (nvml) and the kernel log (kmsg).", "source", lambda s: s.xid_sources.items()),
    _labelled("gpu_exporter_thread_up", "Whether the thread runs; 0 while one that failed waits to be run again.", "thread", lambda s: ((name, t.down_since is None) for name, t in s.process.threads.items())),
    _labelled("gpu_exporter_thread_failures_total", "Times the thread failed, or could not be started.", "thread", lambda s: ((name, t.failures) for name, t in s.process.threads.items()), type=Type.COUNTER),
    _node("gpu_exporter_web_config_reload_success", "Whether the web configuration file and its certificates are in force as they are now; absent without a file.", Unit.NONE, lambda s: s.process.web_reload_success),
    _node("gpu_exporter_web_certificate_expiry_timestamp_seconds", "Unix time at which the server's certificate ends; absent without TLS.", Unit.SECONDS, lambda s: s.process.certificate_expiry),
    _node("gpu_exporter_unattributed_processes", "GPU processes whose owner is not known.", Unit.NONE, lambda s: s.unattributed_processes),
    _labelled("gpu_exporter_series_dropped_total", "Process rows folded into pid 'other', and threads beyond the budget for watching, summed over passes.", "reason", lambda s: s.dropped.items(), type=Type.COUNTER),
)
# fmt: on
