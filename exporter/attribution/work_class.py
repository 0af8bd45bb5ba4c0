"""Class of work of a workload: batch, service or interactive. Decided by facts, in the order of their weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from exporter.attribution.owner import Owner, WorkloadInfo
from exporter.core.record import record
from exporter.host.model import HostSignals

_REPLICA = "ray::servereplica"
"""Ray Serve's: clients ask another program than this one."""
_PROGRAMS = (
    ("batch", ("papermill", "jupyter-nbconvert")),
    ("interactive", ("ipykernel", "jupyter", "code-server", "rstudio", "rsession")),
    ("service", (
        "vllm", "tritonserver", "sglang", "text-generation", "text_generation", "trtllm-serve", "lmdeploy",
        "llama-server", "ollama", "torchserve", "ts/model_service_worker", _REPLICA,
    )),
)  # fmt: skip
"""Classes with the first letters of their programs. A notebook that a program runs by itself has a kernel as well."""
_WORKER = "::"
"""Part of the titles of an engine's workers (`VLLM::EngineCore`), which a user's script may use too."""
_INTERPRETERS = ("python", "pypy", "node")
_PACKAGES = "-packages/"
_WITH_VALUE = frozenset({"-w", "-x"})
"""Options of Python whose value may be the next word."""


def program_class(command_lines: Sequence[str]) -> str:
    """Return the class of work that the known programs among them do; empty where none is known.

    They are in lower case. Programs carry such names in the paths of their data (`/home/jupyter/data`): only the
    program itself counts, which is the name it was started by, its module (`-m`), or its script.
    """
    names = [name for line in command_lines for name in names_of(line)]
    return next((kind for kind, begins in _PROGRAMS if any(name.startswith(begins) for name in names)), "")


def names_of(command_line: str) -> Sequence[str]:
    """Return the names of a program: its file, and of an interpreter the module or the script that it runs."""
    words = command_line.split()
    if not words or (_WORKER in words[0] and not words[0].startswith(_REPLICA)):
        return ()
    file = _shorten_path(words[0])
    return (file, *_run_by(words[1:])) if file.startswith(_INTERPRETERS) else (file,)


def _run_by(words: Sequence[str]) -> Sequence[str]:
    """Return the module or script that an interpreter runs. A user's script (`vllm_offline.py`) has no known name."""
    options = iter(words)
    for word in options:
        if word == "-m":
            return (next(options, ""),)
        if word == "-c":
            return ()
        if word in _WITH_VALUE:
            next(options, "")
        elif not word.startswith("-"):
            return (_shorten_path(word),) if _PACKAGES in word or not word.endswith(".py") else ()
    return ()


def _shorten_path(path: str) -> str:
    """Return a path without its folder, or its path below the packages of Python."""
    return path.rpartition(_PACKAGES)[2] if _PACKAGES in path else path.rpartition("/")[2]


CLASSES = ("batch", "service", "interactive")
FIELDS = ("workload", "namespace", "account", "partition", "user", "kind")
"""Fields that the option may select owners by."""


class WorkClass(NamedTuple):
    """Class and its source: `label`, `option`, `program`, `scheduler` or `socket`. Both are empty if not known."""

    name: str = ""
    source: str = ""


UNKNOWN = WorkClass()


@record
class ClassRule:
    """One entry of the option: owners whose `field` matches `pattern` are of the class `name`."""

    field: str
    pattern: str
    name: str


_KINDS: Mapping[str, tuple[str, ...]] = {
    "batch": (
        "Job", "CronJob", "PyTorchJob", "MPIJob", "TFJob", "TrainJob", "JobSet", "Workflow", "RayJob", "XGBoostJob",
        "PaddleJob", "JAXJob", "SparkApplication", "PodGroup", "flyteworkflow", "DAG", "EphemeralRunner",
        "EphemeralRunnerSet", "AutoscalingRunnerSet", "batch", "sysbatch",
    ),
    "service": (
        "Deployment", "ReplicaSet", "Rollout", "DaemonSet", "LeaderWorkerSet", "InferenceService",
        "LLMInferenceService", "RayService", "Service", "Configuration", "Revision", "service", "system",
    ),
    "interactive": ("Notebook", "Workspace"),
}  # fmt: skip
"""Kinds of Kubernetes objects, then Nomad's types of jobs. A Service is Knative's.

StatefulSets, RayClusters and Grove's kinds are left out: they are used for notebooks, servers and ranks.
"""
_CLASS_OF_KIND = {kind: name for name, kinds in _KINDS.items() for kind in kinds}


def parse_rules(text: str) -> tuple[ClassRule, ...]:
    """Parse `namespace=serving:service,account=class-*:interactive`. Raises ValueError with the expected format."""
    found: list[ClassRule] = []
    for entry in text.replace(",", " ").split():
        field, equals, rest = entry.partition("=")
        pattern, colon, name = rest.rpartition(":")
        if not equals or not colon or not pattern or field not in FIELDS or name not in CLASSES:
            raise ValueError(
                f"FIELD=PATTERN:CLASS, FIELD one of {', '.join(FIELDS)}, CLASS one of {', '.join(CLASSES)}"
            )
        found.append(ClassRule(field, pattern, name))
    return tuple(found)


def classify(owner: Owner, info: WorkloadInfo, host: HostSignals, rules: Sequence[ClassRule] = ()) -> WorkClass:
    """Return the class of a workload. Labels and options count before observations, programs before schedulers."""
    program = program_class(host.programs)
    candidates = (
        (info.requested_class if info.requested_class in CLASSES else "", "label"),
        (next((rule.name for rule in rules if fnmatchcase(getattr(owner, rule.field), rule.pattern)), ""), "option"),
        (program if program == "interactive" else "", "program"),
        (program if program == "service" and host.serves else "", "program"),
        ("interactive" if info.slurm_step == "interactive" else "", "scheduler"),
        (_CLASS_OF_KIND.get(info.owner_kind, ""), "scheduler"),
        ("service" if host.serves else "", "socket"),
        (program, "program"),
        ("batch" if owner.kind == "slurm" else "", "scheduler"),
    )
    return next((WorkClass(name, source) for name, source in candidates if name), UNKNOWN)


class WorkClasses:
    """Classes of a node's workloads, decided again where the facts about one have changed."""

    def __init__(self, rules: Sequence[ClassRule] = ()) -> None:
        self._rules = rules
        self._kept: dict[Owner, tuple[object, WorkClass]] = {}

    def of(self, info: Mapping[Owner, WorkloadInfo], hosts: Mapping[Owner, HostSignals]) -> Mapping[Owner, WorkClass]:
        """Return the class of each owner in `info`."""
        kept, self._kept = self._kept, {}
        for owner, workload in info.items():
            host = hosts.get(owner, HostSignals())
            facts = (workload, host.serves, host.programs)
            known = kept.get(owner)
            same = known is not None and known[0] == facts
            self._kept[owner] = known if known and same else (facts, classify(owner, workload, host, self._rules))
        return {owner: found for owner, (_, found) in self._kept.items()}
