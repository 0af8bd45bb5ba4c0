"""Owners of Slurm jobs, from what is known of them; pure, so that a job always gets the same name."""

from __future__ import annotations

from exporter.attribution.owner import Owner
from exporter.attribution.ownership import WorkloadInfo
from exporter.attribution.slurm.environ import JobEnviron
from exporter.attribution.slurm.job import Job


def job_owner(job: str, known: Job | None, job_environ: JobEnviron | None, user: str) -> Owner:
    """Return the owner of a job: by slurmctld first, then by the kernel's word on the `user`, then by the job's own."""
    return Owner(
        workload=f"slurm:{job}",
        kind="slurm",
        slurm_job=job,
        user=known.user if known else user or (job_environ.user if job_environ else ""),
        account=known.account if known else job_environ.account if job_environ else "",
        partition=known.partition if known else job_environ.partition if job_environ else "",
    )


def job_info(known: Job | None, job_environ: JobEnviron | None, step: str, trust: str) -> WorkloadInfo:
    own = job_environ or JobEnviron()
    if known is None:
        return WorkloadInfo(job_name=own.name, slurm_step=step, trust=trust, nodes=own.node_count, tasks=own.task_count)
    return WorkloadInfo(
        slurm_array_job=known.array_job,
        slurm_array_task=known.array_task,
        slurm_het_job=known.het_job,
        slurm_het_offset=known.het_offset,
        slurm_step=step,
        job_name=known.name,
        qos=known.qos,
        time_limit_seconds=known.time_limit_seconds,
        start_time=known.start_time,
        trust=trust,
        nodes=known.node_count or own.node_count,
        tasks=known.task_count or own.task_count,
        part_of=_whole(known),
        restarts=known.restarts,
    )


def _whole(job: Job) -> str:
    """Return the array, or the heterogeneous job, that it is a part of."""
    whole = job.array_job or job.het_job
    return f"slurm:{whole}" if whole else ""
