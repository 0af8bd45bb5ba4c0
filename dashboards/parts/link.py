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
    cluster: str = ""
    """Source of the cluster, if the row or series has it; else the reader's choice is carried on."""

    @property
    def url(self) -> str:
        given = "".join(f"&var-{name}={value}" for name, value in self.variables)
        cluster = f"var-cluster={self.cluster}" if self.cluster else "${cluster:queryparam}"
        return f"/d/{self.target}?${{datasource:queryparam}}&{cluster}{given}&${{__url_time_range}}"

    def value(self) -> dict[str, object]:
        """Return the link as the value of an override."""
        return {"title": self.title, "url": self.url, "targetBlank": False}

    def build(self) -> build.DashboardLink:
        return build.DashboardLink(self.title).url(self.url)


@dataclass(frozen=True, slots=True)
class Page:
    """A link to a page of the documentation, for which `docs` is a variable of every dashboard."""

    title: str
    path: str

    @property
    def url(self) -> str:
        return f"${{docs}}{self.path}"

    def value(self) -> dict[str, object]:
        return {"title": self.title, "url": self.url, "targetBlank": True}


Onward = Link | Page
RUNBOOK = Page("What to do: the runbook", "runbooks/${__value.raw}.md")
XID = Page("What the XIDs mean", "runbooks/gpurecoveryactionneeded.md")
DIAGNOSIS = Page("What it means, and the whole advice", "diagnosis.md#the-states")


def cell(name: str) -> str:
    """The text of the column `name` in the row that was clicked."""
    return f'${{__data.fields["{name}"]:percentencode}}'


def label(name: str) -> str:
    """A label of the series that was clicked."""
    return f"${{__field.labels.{name}:percentencode}}"


def to_node(instance: str, cluster: str = "") -> Link:
    return Link("Open the node", uid.NODE, (("instance", instance),), cluster)


def to_gpu(instance: str, gpu: str, cluster: str = "") -> Link:
    return Link("Open the GPU", uid.GPU, (("instance", instance), ("gpu", gpu)), cluster)


def to_pod(workload: str, cluster: str = "") -> Link:
    return Link("Open the workload", uid.KUBERNETES, (("namespace", "$__all"), ("workload", workload)), cluster)


def to_job(workload: str, cluster: str = "") -> Link:
    given = (("account", "$__all"), ("user", "$__all"), ("workload", workload))
    return Link("Open the job", uid.SLURM, given, cluster)


def to_namespace(namespace: str) -> Link:
    return Link("Workloads of the namespace", uid.KUBERNETES, (("namespace", namespace), ("workload", "$__all")))


def to_account(account: str) -> Link:
    return Link("Jobs of the account", uid.SLURM, (("account", account), ("user", "$__all"), ("workload", "$__all")))


def to_user(user: str) -> Link:
    return Link("Jobs of the user", uid.SLURM, (("account", "$__all"), ("user", user), ("workload", "$__all")))


def to_model(model: str) -> Link:
    return Link("Nodes with this model", uid.FLEET, (("model", model),))


def to_waste() -> Link:
    return Link("Where the GPU hours go", uid.WASTE)


def to_health() -> Link:
    return Link("Health of the GPUs", uid.HEALTH, (("instance", "$__all"),))


def to_exporter() -> Link:
    return Link("The exporters", uid.EXPORTER, (("instance", "$__all"),))
