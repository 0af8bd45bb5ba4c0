"""Series that cases of several kinds need."""

from __future__ import annotations

from collections.abc import Mapping

from tests.contract.rules.case import DEV, OWNER, SECOND_JOB


def gauge(name: str, values: str, dev: str = DEV, more: str = "") -> dict[str, str]:
    return {f"{name}{{{dev}{more}}}": values}


def finding(name: str, values: str, dev: str = DEV, severity: str = "degraded") -> dict[str, str]:
    return gauge("gpu_finding", values, dev, f',finding="{name}",severity="{severity}"')


def share(owner: str, values: str, dev: str = DEV) -> dict[str, str]:
    return {f"gpu_allocation_ratio{{{dev},{owner}}}": values}


def xid(number: int, kind: str, values: str, last: str) -> dict[str, str]:
    return {
        f'gpu_xid_errors_total{{{DEV},xid="{number}",class="{kind}"}}': values,
        f'gpu_xid_last_timestamp_seconds{{{DEV},xid="{number}",class="{kind}"}}': last,
    }


ALLOCATED = share(OWNER, "1x200")


def twice(series: dict[str, str]) -> dict[str, str]:
    """The same, scraped by a second job."""
    return series | {name.replace('job="gpu-exporter"', f'job="{SECOND_JOB}"'): v for name, v in series.items()}


def by_two_exporters(series: Mapping[str, str]) -> dict[str, str]:
    """The same, also told by an exporter of another port on each node: an old and a new one while they change over."""
    return {**series, **{name.replace(":9836", ":9900"): values for name, values in series.items()}}
