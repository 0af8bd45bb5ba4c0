"""What class of work a workload is: batch, service or interactive. Decided by facts, in the order of their weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from exporter.attribution.owner import Owner, WorkloadInfo
from exporter.core.record import record
from exporter.host.model import HostSignals

_REPLICA = "ray::servereplica"
"""Ray Serve's: clients ask another program than this one."""
_PROGRAMS = (
    # begin of its name    class
    ("papermill", "batch"),
    ("jupyter-nbconvert", "batch"),
    ("ipykernel", "interactive"),
    ("jupyter", "interactive"),
    ("code-server", "interactive"),
    ("rstudio", "interactive"),
    ("rsession", "interactive"),
    ("vllm", "service"),
    ("tritonserver", "service"),
    ("sglang", "service"),
    ("text-generation", "service"),
    ("text_generation", "service"),
    ("trtllm-serve", "service"),
    ("lmdeploy", "service"),
    ("llama-server", "service"),
    ("ollama", "service"),
    ("torchserve", "service"),
    ("ts/model_service_worker", "service"),
    (_REPLICA, "service"),
)
"""In their order: a notebook that a program runs by itself has a kernel as well."""
_WORKER = "::"
"""In the titles that engines give their workers (`VLLM::EngineCore`), also where a user's script is what uses them."""
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
    return next((kind for begin, kind in _PROGRAMS if any(name.startswith(begin) for name in names)), "")


def names_of(command_line: str) -> Sequence[str]:
    """How a program is called: by its file, and of an interpreter by the module or the script that it runs."""
    words = command_line.split()
    if not words or (_WORKER in words[0] and not words[0].startswith(_REPLICA)):
        return ()
    file = _file(words[0])
    return (file, *_run_by(words[1:])) if file.startswith(_INTERPRETERS) else (file,)


def _run_by(words: Sequence[str]) -> Sequence[str]:
    """A script of the user's own (`vllm_offline.py`) is not the program it is named after."""
    options = iter(words)
    for word in options:
        if word == "-m":
            return (next(options, ""),)
        if word == "-c":
            return ()
        if word in _WITH_VALUE:
            next(options, "")
        elif not word.startswith("-"):
            return (_file(word),) if _PACKAGES in word or not word.endswith(".py") else ()
    return ()


def _file(path: str) -> str:
    """Without its folder, but for that within the packages of Python."""
    return path.rpartition(_PACKAGES)[2] if _PACKAGES in path else path.rpartition("/")[2]


CLASSES = ("batch", "service", "interactive")
FIELDS = ("workload", "namespace", "account", "partition", "user", "kind")
"""What the option may select owners by."""


class WorkClass(NamedTuple):
    """`source` is what decided it: `label`, `option`, `program`, `scheduler` or `socket`; both empty: not known."""

    name: str = ""
    source: str = ""


UNKNOWN = WorkClass()


@record
class ClassRule:
    """One entry of the option: owners whose `field` matches are of the class `name`."""

    field: str
    pattern: str
    name: str


_CONTROLLERS: Mapping[str, str] = {
    "Job": "batch",
    "CronJob": "batch",
    "PyTorchJob": "batch",
    "MPIJob": "batch",
    "TFJob": "batch",
    "TrainJob": "batch",
    "JobSet": "batch",
    "Workflow": "batch",
    "RayJob": "batch",
    "XGBoostJob": "batch",
    "PaddleJob": "batch",
    "JAXJob": "batch",
    "SparkApplication": "batch",
    "PodGroup": "batch",
    "Deployment": "service",
    "ReplicaSet": "service",
    "Rollout": "service",
    "DaemonSet": "service",
    "LeaderWorkerSet": "service",
    "InferenceService": "service",
    "LLMInferenceService": "service",
    "RayService": "service",
    "Service": "service",
    "Configuration": "service",
    "Revision": "service",
    "Notebook": "interactive",
    "Workspace": "interactive",
    "batch": "batch",
    "sysbatch": "batch",
    "service": "service",
    "system": "service",
}
"""Kinds of Kubernetes objects, then Nomad's types of jobs.

A Service is Knative's. StatefulSets and RayClusters are everything (notebooks, servers, ranks): they say nothing.
"""


def parse_rules(text: str) -> tuple[ClassRule, ...]:
    """`namespace=serving:service,account=class-*:interactive`. Raises ValueError that reports what was expected."""
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
    """What people say counts before what is seen; a notebook in a batch job is a notebook, and a server a server."""
    program = program_class(host.programs)
    candidates = (
        (info.requested_class if info.requested_class in CLASSES else "", "label"),
        (_of_rules(owner, rules), "option"),
        (program if program == "interactive" else "", "program"),
        (program if program == "service" and host.serves else "", "program"),
        ("interactive" if info.slurm_step == "interactive" else "", "scheduler"),
        (_CONTROLLERS.get(info.owner_kind, ""), "scheduler"),
        ("service" if host.serves else "", "socket"),
        (program, "program"),
        ("batch" if owner.kind == "slurm" else "", "scheduler"),
    )
    return next((WorkClass(name, source) for name, source in candidates if name), UNKNOWN)


def _of_rules(owner: Owner, rules: Sequence[ClassRule]) -> str:
    return next((rule.name for rule in rules if fnmatchcase(getattr(owner, rule.field), rule.pattern)), "")


@dataclass(slots=True)
class WorkClasses:
    """The classes of a node's workloads, judged again where what is known of one has changed."""

    rules: Sequence[ClassRule] = ()
    _kept: dict[Owner, tuple[WorkloadInfo, bool | None, tuple[str, ...], WorkClass]] = field(
        default_factory=dict[Owner, "tuple[WorkloadInfo, bool | None, tuple[str, ...], WorkClass]"]
    )

    def of(self, info: Mapping[Owner, WorkloadInfo], hosts: Mapping[Owner, HostSignals]) -> Mapping[Owner, WorkClass]:
        """Of the owners in `info`."""
        kept = self._kept
        self._kept = {}
        for owner, workload in info.items():
            host = hosts.get(owner, _NO_HOST)
            known = kept.get(owner)
            if known is None or known[:3] != (workload, host.serves, host.programs):
                known = (workload, host.serves, host.programs, classify(owner, workload, host, self.rules))
            self._kept[owner] = known
        return {owner: known[3] for owner, known in self._kept.items()}


_NO_HOST = HostSignals()
