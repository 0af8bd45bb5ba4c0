"""Every option, declared once: its flag, its environment variable, its YAML key, its default and its help."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.attribution.work_class import ClassRule, parse_rules
from exporter.config.network import address, http_url
from exporter.core.project import RUNBOOKS

_LONGEST = 36_500 * 86400.0
"""Seconds: what is longer is a slip of the key, and more than a thread can wait."""
_DIGITS = 18
DEADLINE = 0.8
"""Seconds: the default time that one pass waits for the GPUs."""
STALE = 10.0
"""Seconds: the default age at which a gauge vanishes."""
_MOST_THREADS = 256


class ConfigError(Exception):
    """One line that names the option or file, and what was expected."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `parse` turns text into the value and raises ValueError saying what was expected."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    metavar: str
    help: str
    group: str

    @property
    def environment(self) -> str:
        return "GPU_EXPORTER_" + re.sub(r"[.-]", "_", self.name).upper()

    @property
    def switch(self) -> bool:
        """Whether it is set by `--name` and `--no-name` rather than by a value."""
        return self.parse is boolean

    @property
    def timed(self) -> bool:
        """Whether its value is a time in seconds."""
        return self.parse in (duration, positive_duration)

    @property
    def flag(self) -> str:
        return f"--[no-]{self.name}" if self.switch else f"--{self.name}"


def text(value: str) -> str:
    return value


def boolean(value: str) -> bool:
    known = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    try:
        return known[value.strip().lower()]
    except KeyError:
        raise ValueError("true or false") from None


def duration(value: str) -> float:
    """Seconds from `500ms`, `10s`, `2m`, `1h`, `7d` or a plain number of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", value.strip())
    if not match:
        raise ValueError("a duration such as 500ms, 10s or 2m")
    seconds = float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}[match[2]]
    if seconds > _LONGEST:
        raise ValueError(f"a duration of at most {duration_text(_LONGEST)}")
    return seconds


def duration_text(seconds: float) -> str:
    """As `duration` reads it: 604800 is `7d`, 0.8 `800ms`."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s" if seconds >= 1 or not seconds else f"{seconds * 1000:g}ms"


def positive_duration(value: str) -> float:
    seconds = duration(value)
    if seconds <= 0:
        raise ValueError("a duration above zero")
    return seconds


def natural(value: str) -> int:
    if not re.fullmatch(r"\d+", value.strip()):
        raise ValueError("a whole number")
    if len(value.strip()) > _DIGITS:
        raise ValueError(f"a whole number of at most {_DIGITS} digits")
    return int(value)


def positive(value: str) -> int:
    count = natural(value) if value.strip() != "0" else 0
    if not count:
        raise ValueError("a whole number from 1 on")
    return count


def thread_count(value: str) -> int:
    count = positive(value)
    if count > _MOST_THREADS:
        raise ValueError(f"a whole number from 1 to {_MOST_THREADS}")
    return count


def number(value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError("a number")
    return found


def amount(value: str) -> float:
    found = number(value)
    if found < 0:
        raise ValueError("a number from 0 on")
    return found


def share(value: str) -> float:
    found = number(value)
    if not 0 <= found <= 1:
        raise ValueError("a number from 0 to 1")
    return found


def names(value: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[,\s]+", value.strip()) if part)


def class_rules(value: str) -> tuple[ClassRule, ...]:
    return parse_rules(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """Takes one of a few words."""

    known: tuple[str, ...]

    def __call__(self, value: str) -> str:
        # YAML 1.1 reads a bare `on` as true.
        meant = {"true": "on", "false": "off"}.get(value, value) if "on" in self.known else value
        if meant not in self.known:
            raise ValueError("one of " + ", ".join(self.known))
        return meant


def choice(*known: str) -> Choice:
    return Choice(known)


def url_path(value: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9_./-]+", value):
        raise ValueError("a path such as /metrics: /, then letters, digits and . _ - /")
    if value.startswith("/-/"):
        raise ValueError("a path beside those of the probes, /-/healthy and /-/ready")
    return value


def default_of(option: Option) -> str:
    """The default as a user would type it; empty where there is none."""
    if option.parse is names:
        return ", ".join(option.default)
    return duration_text(option.default) if option.timed else show(option.default)


def show(value: Any) -> str:
    """A default as a user would type it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], int):  # noqa: PLR2004  # pyright: ignore[reportUnknownArgumentType]
        return f"{value[0]}:{value[1]}"
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items())  # pyright: ignore[reportUnknownVariableType]
    return str(value)


HIDDEN_METRICS = (
    "gpu_bar1_memory_total_bytes",
    "gpu_bar1_memory_used_bytes",
    "gpu_graphics_active_seconds_total",
    "gpu_memory_activity_ratio",
    "gpu_memory_busy_seconds_total",
    "gpu_memory_free_bytes",
    "gpu_mig_fp16_active_seconds_total",
    "gpu_mig_fp32_active_seconds_total",
    "gpu_mig_fp64_active_seconds_total",
    "gpu_mig_graphics_active_seconds_total",
    "gpu_mig_integer_active_seconds_total",
    "gpu_mig_memory_free_bytes",
    "gpu_mig_memory_reserved_bytes",
    "gpu_mig_mode_enabled",
    "gpu_mig_sm_occupancy_seconds_total",
    "gpu_nvlink_link_speed_bytes",
    "gpu_performance_state",
    "gpu_persistence_mode_enabled",
    "gpu_power_max_limit_watts",
    "gpu_power_min_limit_watts",
    "gpu_temperature_threshold_margin_celsius",
    "gpu_workload_processes",
)
"""Hidden by default: no rule, panel, report or runbook reads them. Tests hold both."""
_MODE = choice("auto", "on", "off")
_WEB, _PATH, _SAMPLE, _PROCESS, _METRICS, _OWNER, _FAULTS, _INPUT, _LOG = (
    "Web",
    "Paths",
    "Sampling",
    "Processes",
    "Metrics",
    "Attribution",
    "Faults",
    "Input",
    "Logging",
)
_POD_RESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"

# fmt: off
STATIC: tuple[Option, ...] = (
    Option("web.listen-address", ("", 9836), address, "ADDRESS", "Address to serve on.", _WEB),
    Option("web.telemetry-path", "/metrics", url_path, "PATH", "Path of the metrics.", _WEB),
    Option("web.config.file", "", text, "FILE", "TLS and basic auth, in the format of Prometheus exporters.", _WEB),
    Option("web.runbook-url", RUNBOOKS, text, "URL", "Where the status page links to; {name} is the runbook's.", _WEB),
    Option("web.max-threads", 4, thread_count, "N", "Threads that answer requests.", _WEB),
    Option("path.procfs", "/proc", text, "DIR", "Mount of the host's procfs.", _PATH),
    Option("path.sysfs", "/sys", text, "DIR", "Mount of the host's sysfs.", _PATH),
    Option("path.cgroupfs", "/sys/fs/cgroup", text, "DIR", "Mount of the host's cgroups.", _PATH),
    Option("path.kmsg", "/dev/kmsg", text, "FILE", "Kernel log to read XIDs from, where readable.", _PATH),
    Option("path.docker", "/var/lib/docker", text, "DIR", "Docker's data folder; names of containers come from it.", _PATH),
    Option("path.podman", "/var/lib/containers/storage", text, "DIR", "Storage folder of root's Podman; the same.", _PATH),
    Option("path.containerd", "/run/containerd", text, "DIR", "containerd's state folder; the same for nerdctl and ctr.", _PATH),
    Option("sample.interval", 1.0, positive_duration, "DURATION", "Time between two passes over the GPUs.", _SAMPLE),
    Option("sample.deadline", DEADLINE, positive_duration, "DURATION", "Time one pass waits for the GPUs to answer; at most --sample.interval, of a shorter one the default is four fifths.", _SAMPLE),
    Option("sample.stale", STALE, positive_duration, "DURATION", "Age at which a gauge vanishes; at least --sample.interval and --sample.deadline together, to which the default grows.", _SAMPLE),
    Option("process.limit", 64, natural, "N", "Processes shown per GPU; the rest are summed as pid 'other'.", _PROCESS),
    Option("process.command-line", False, boolean, "", "Show arguments in `command`, secrets masked; else the short name.", _PROCESS),
    Option("metrics.hide", HIDDEN_METRICS, names, "NAMES", "Metrics to hide; * stands for any text. A list replaces the default one; an empty list shows every metric.", _METRICS),
    Option("attribution.kubernetes", "auto", _MODE, "MODE", "Pods: on, off, or auto, which is on where the kubelet's socket is or pods run on the GPUs.", _OWNER),
    Option("attribution.kubernetes.pod-resources-socket", _POD_RESOURCES, text, "PATH", "The kubelet's pod-resources socket.", _OWNER),
    Option("attribution.kubernetes.api", False, boolean, "", "Ask the API server for this node's pods and what they belong to: exact names of workloads, labels, restarts.", _OWNER),
    Option("attribution.kubernetes.pod-labels", (), names, "NAMES", "Pod labels to show on gpu_workload_info, as label_NAME.", _OWNER),
    Option("attribution.kubernetes.node-name", "", text, "NAME", "This node's name in Kubernetes (default: $NODE_NAME).", _OWNER),
    Option("attribution.containers", "auto", _MODE, "MODE", "Names of containers without a scheduler: off; auto: where their engines' files may be read; on: a failure where not.", _OWNER),
    Option("attribution.nomad.address", "", http_url, "URL", "Nomad's local agent, e.g. http://127.0.0.1:4646; empty: it is not asked.", _OWNER),
    Option("attribution.nomad.token-file", "", text, "FILE", "Token for it, with node:read, agent:read and read-job.", _OWNER),
    Option("attribution.nomad.ca-file", "", text, "FILE", "Certificates of who may have signed its own, for https.", _OWNER),
    Option("attribution.slurm", "auto", _MODE, "MODE", "Slurm jobs: on, off, or auto, which is on where slurmd's files or job cgroups are.", _OWNER),
    Option("attribution.slurm.mapping-dir", "", text, "DIR", "Directory of the prolog's per-GPU job files.", _OWNER),
    Option("attribution.slurm.scontrol", "scontrol", text, "COMMAND", "The scontrol to ask about a new job id.", _OWNER),
    Option("attribution.slurm.gres-conf", "/etc/slurm/gres.conf", text, "FILE", "GRES index to device file.", _OWNER),
    Option("attribution.classes", (), class_rules, "RULES", "Class of work by owner, e.g. namespace=serving:service,partition=debug*:interactive.", _OWNER),
    Option("attribution.retention", 120.0, duration, "DURATION", "Time an ended workload stays on the metrics.", _OWNER),
    Option("state.dir", "auto", text, "DIR", "Directory where faults are kept over restarts; empty: nowhere; auto: /var/lib/gpu-exporter, nowhere with --simulate.", _FAULTS),
    Option("expect.gpus", 0, natural, "N", "GPUs this node must have; 0: as many as its past, gres.conf and PCI bus say.", _FAULTS),
    Option("maintenance.file", "/run/gpu-exporter/maintenance", text, "FILE", "While it exists, this node is in maintenance.", _FAULTS),
    Option("progress.socket", "", text, "FILE", "Unix datagram socket where programs send their progress: docs/progress.md.", _OWNER),
    Option("progress.dir", "", text, "DIR", "Directory where programs leave their progress: docs/progress.md.", _OWNER),
    Option("nccl.ras", False, boolean, "", "Ask the NCCL of a job that seems to hang (2.24 and newer) which rank lags; needs CAP_SYS_ADMIN and CAP_SYS_PTRACE where jobs have networks of their own.", _OWNER),
    Option("nccl.ras-address", ("localhost", 28028), address, "ADDRESS", "Where NCCL's RAS port listens, within the job's network; localhost is both 127.0.0.1 and ::1.", _OWNER),
    Option("simulate", "", text, "SPEC", "Simulated GPUs in place of the driver, e.g. 8xH200:training.", _INPUT),
    Option("driver.capture", "", text, "FILE", "Recorded answers in place of the driver.", _INPUT),
    Option("driver.exit-after", 0.0, duration, "DURATION", "In a container: end after so long without library, devices or permission, so that a new one gets them; 0 is never.", _INPUT),
    Option("log.level", "info", choice("debug", "info", "warning", "error"), "LEVEL", "Level from which on messages are logged: debug, info, warning or error.", _LOG),
    Option("log.format", "logfmt", choice("logfmt", "json"), "FORMAT", "How to log: logfmt or json.", _LOG),
)
# fmt: on
