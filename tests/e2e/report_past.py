"""Jobs of a past that is known to the second, as exporters and recording rules left them in Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from tests.e2e.backfill import Past

HOUR = 3600
SCRAPE = 15
OWNER = {
    "workload": "slurm:4711", "kind": "slurm", "workload_namespace": "", "workload_pod": "", "workload_container": "",
    "slurm_job": "4711", "user": "alice", "account": "physics", "partition": "gpu",
}  # fmt: skip


SHARES = {
    "n1": {"computing": 0.60, "wait_storage": 0.30, "allocated_idle": 0.10},
    "n2": {"computing": 0.50, "wait_cpu": 0.50},
}
"""Where each GPU second of the job went, by node; four GPUs on each, for one hour."""
WATTS = {"n1": 400.0, "n2": 250.0}
GIB = 1 << 30


SCRAPE_JOBS = {"n1": ({"job": "gpu"}, {"job": "gpu-too", "__replica__": "b"}), "n2": ({"job": "gpu"},)}
"""n1 is scraped twice, which must not make two of anything."""


def job(past: Past, began: float, ended: float, now: float) -> None:
    """The job on two nodes; the exporter of n2 restarts in the middle and counts from 0 again."""
    for node, shares in SHARES.items():
        for offset, scrape_job in enumerate(SCRAPE_JOBS[node]):
            here = {"instance": f"{node}:9836", **scrape_job}
            own = {**here, **OWNER}
            restart = (began + ended) / 2 if node == "n2" else began
            first = offset + (3.0 if node == "n1" else 8.5)
            times = [t + first for t in range(int(began), int(ended) + 100, SCRAPE)]

            def allocated(t: float, restart: float = restart) -> float:
                """Seconds counted since the exporter's start."""
                return min(t, ended) - (restart if t >= restart else began)

            for state, share in shares.items():
                points = [(t, 4 * share * allocated(t)) for t in times]
                past.add("gpu_workload_gpu_seconds_total", {**own, "state": state}, points)
            past.add("gpu_workload_energy_joules_total", own, [(t, 4 * WATTS[node] * allocated(t)) for t in times])
            past.add("gpu_workload_allocated_gpus", own, [(t, 4.0 if t < ended else 0.0) for t in times])
            past.add("gpu_workload_resident_memory_bytes", own, [(t, 20.0 * GIB) for t in times if t < ended])
            info = {"job_name": "train", "time_limit_seconds": "7200", "slurm_array_job": "4709"}
            info["slurm_array_task"] = "2"
            past.add("gpu_workload_info", {**own, **info}, [(t, 1.0) for t in times])
            devices(past, node, here, own, (began, ended, now))


def devices(past: Past, node: str, here: Mapping[str, str], own: Mapping[str, str], span: tuple[float, ...]) -> None:
    """The four GPUs, with a life before the job and after it; the second one of n1 never ran a kernel."""
    began, ended, now = span
    life = range(int(began) - HOUR, int(now), SCRAPE)
    for gpu in range(4):
        device = {**here, "gpu": str(gpu), "uuid": f"GPU-{node}-{gpu}"}
        shares = {"allocated_idle": 1.0} if (node, gpu) == ("n1", 1) else SHARES[node]
        for state in {*shares, "free"}:
            share = shares.get(state, 0.0)
            points = []
            for t in life:
                inside = max(0.0, min(t, ended) - began)
                outside = t - life.start - inside
                points.append((float(t), share * inside + (outside if state == "free" else 0.0)))
            past.add("gpu_state_seconds_total", {**device, "state": state}, points)
        past.add("gpu_info", {**device, "model": "NVIDIA H100 80GB HBM3"}, [(float(t), 1.0) for t in life])
        past.add("gpu_memory_total_bytes", device, [(float(t), 80.0 * GIB) for t in life])
        used = [(float(t), 60.0 * GIB if began <= t < ended else 0.0) for t in life]
        past.add("gpu_memory_used_bytes", device, used)
        past.add("gpu_power_watts", device, [(float(t), WATTS[node]) for t in life])
        past.add("gpu_allocation_ratio", {**device, **own}, [(float(t), 1.0) for t in life if began <= t < ended])


SHORT = 120
"""Seconds of a job that eight scrapes saw: what it had at the first of them counts too."""


def short_job(past: Past, began: float, job: str = "4712", node: str = "n3") -> None:
    owner = {**OWNER, "workload": f"slurm:{job}", "slurm_job": job, "instance": f"{node}:9836", "job": "gpu"}
    times = [began + 11 + SCRAPE * scrape for scrape in range(15)]

    def allocated(t: float) -> float:
        return min(t - began, SHORT)

    for state, share in {"computing": 0.25, "wait_cpu": 0.75}.items():
        labels = {**owner, "state": state}
        past.add("gpu_workload_gpu_seconds_total", labels, [(t, share * allocated(t)) for t in times])
    past.add("gpu_workload_allocated_gpus", owner, [(t, 1.0 if t < began + SHORT else 0.0) for t in times])


BRIEF = {f"48{number:02d}": float(seconds) for number, seconds in enumerate((9, 16, 20, 31, 40, 50, 59))}
"""Seconds of jobs that a look every minute misses; the first ended before any scrape saw it."""


def brief_job(past: Past, job: str, began: float, seconds: float) -> None:
    owner = {**OWNER, "workload": f"slurm:{job}", "slurm_job": job, "instance": "n3:9836", "job": "gpu"}
    times = [began + 10 + SCRAPE * scrape for scrape in range(1 + int(seconds + 120) // SCRAPE)]
    allocated = [(t, min(t - began, seconds)) for t in times]
    past.add("gpu_workload_gpu_seconds_total", {**owner, "state": "computing"}, allocated)
    past.add("gpu_workload_allocated_gpus", owner, [(t, 1.0 if t < began + seconds else 0.0) for t in times])
    past.add("gpu_workload_start_time_seconds", owner, [(t, began) for t in times])


DIGEST = {
    # user: account, Allocated GPUs, GPUs wasted, state
    "alice": ("physics", 8.0, 3.0, "wait_storage"),
    "bob": ("nlp", 4.0, 3.5, "allocated_idle"),
}
JOBS = {"alice": "4711", "bob": "1"}
DIGEST_HOURS = 10
TOTALS = {
    "gpu_workload_allocated": "allocated",
    "gpu_workload_observed": "allocated",
    "gpu_workload_busy": "used",
    "gpu_waste": "lost",
}


MODEL = "NVIDIA A100-SXM4-80GB"
PRICE = 1.8
"""EUR per GPU and hour."""


def recorded(past: Past, now: float) -> None:
    """What the rules of two replicas wrote for ten hours: each user holds so many GPUs and loses some."""
    times = [float(t) for t in range(int(now) - DIGEST_HOURS * HOUR, int(now), 60)]

    def flat(family: str, labels: Mapping[str, str], value: float, minutes: int = 1) -> None:
        for replica in ("a", "b"):
            own = {"cluster": "c1", "prometheus_replica": replica, **labels}
            past.add(family, own, [(t, value) for t in times[::minutes]])

    def grown(level: str, labels: Mapping[str, str], gpus: Mapping[str, float]) -> None:
        """Add GPU seconds and cost of a quarter of an hour, of `gpus` in each state."""
        of_model = {**labels, "model": MODEL}
        for state, number in gpus.items():
            flat(
                f"{level}_state:gpu_owner_gpu_seconds:increase", {**of_model, "state": state}, number * 900, minutes=15
            )
            flat(f"{level}_state:gpu_owner_cost:increase", {**labels, "state": state}, number * PRICE / 4, minutes=15)
        flat(f"{level}:gpu_owner_busy_gpu_seconds:increase", of_model, gpus["computing"] * 900, minutes=15)

    h100 = {"model": "NVIDIA H100 80GB HBM3", "currency": "EUR"}
    flat("gpu:price_per_hour", {"model": MODEL, "currency": "EUR"}, PRICE)
    flat("gpu:price_per_hour", h100, 3.0)
    # The jobs' own series have no cluster, as on a Prometheus without external labels.
    flat("gpu:price_per_hour", {**h100, "cluster": ""}, 3.0)
    for user, (account, allocated, wasted, state) in DIGEST.items():
        owner = {**OWNER, "workload": f"slurm:{JOBS[user]}", "slurm_job": JOBS[user], "user": user, "account": account}
        recording = "workload_state:gpu_workload_gpu_seconds:rate5m"
        flat(recording, {**owner, "state": "computing"}, allocated - wasted)
        flat(recording, {**owner, "state": state}, wasted)
        for name, value in TOTALS.items():
            flat(
                f"workload:{name}:rate5m",
                owner,
                {"allocated": allocated, "used": allocated - wasted, "lost": wasted}[value],
            )
        for level, whose in (("user", user), ("account", account), ("team", account)):
            grown(level, {level: whose}, {"computing": allocated - wasted, state: wasted})
        flat("workload_model:gpu_allocation_ratio:sum", {**owner, "model": MODEL}, allocated)
    flat("cluster_state:gpu_state_seconds:rate5m", {"state": "computing"}, 5.5)
    flat("cluster:gpu_exporters:count", {}, 5.0)
    past.add("gpu_exporter_build_info", {"version": "1"}, [(t, 1.0) for t in times])
