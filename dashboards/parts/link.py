"""Links from one dashboard to the next. Each carries data source, cluster and time range."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.parts import uid


@dataclass(frozen=True, slots=True)
class Link:
    """A link to the dashboard `target`; `variables` are (name, where its value comes from) pairs."""

    title: str
    target: str
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        given = "".join(f"&var-{name}={value}" for name, value in self.variables)
        carried = "${datasource:queryparam}&${cluster:queryparam}"
        return f"/d/{self.target}?{carried}{given}&${{__url_time_range}}"

    def value(self) -> dict[str, object]:
        """As the value of an override."""
        return {"title": self.title, "url": self.url, "targetBlank": False}

    def build(self) -> build.DashboardLink:
        return build.DashboardLink(self.title).url(self.url)


def cell(name: str) -> str:
    """The text of the column `name` in the row that was clicked."""
    return f'${{__data.fields["{name}"]:percentencode}}'


def label(name: str) -> str:
    """A label of the series that was clicked."""
    return f"${{__field.labels.{name}:percentencode}}"


def to_node(instance: str) -> Link:
    return Link("Open the node", uid.NODE, (("instance", instance),))


def to_gpu(instance: str, gpu: str) -> Link:
    return Link("Open the GPU", uid.GPU, (("instance", instance), ("gpu", gpu)))


def to_pod(workload: str) -> Link:
    return Link("Open the workload", uid.KUBERNETES, (("namespace", "$__all"), ("workload", workload)))


def to_job(workload: str) -> Link:
    return Link("Open the job", uid.SLURM, (("account", "$__all"), ("user", "$__all"), ("workload", workload)))


def to_namespace(namespace: str) -> Link:
    return Link("Workloads of the namespace", uid.KUBERNETES, (("namespace", namespace), ("workload", "$__all")))


def to_account(account: str) -> Link:
    return Link("Jobs of the account", uid.SLURM, (("account", account), ("user", "$__all"), ("workload", "$__all")))


def to_user(user: str) -> Link:
    return Link("Jobs of the user", uid.SLURM, (("account", "$__all"), ("user", user), ("workload", "$__all")))


def to_waste() -> Link:
    return Link("Where the GPU hours go", uid.WASTE)


def to_health() -> Link:
    return Link("Health of the GPUs", uid.HEALTH, (("instance", "$__all"),))


def to_exporter() -> Link:
    return Link("The exporters", uid.EXPORTER, (("instance", "$__all"),))
