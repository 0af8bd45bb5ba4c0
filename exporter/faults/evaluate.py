"""The verdict on a node: what is known of it, made into findings. Pure.

The daemon, `gpu-exporter check`, the drain, the status page and the alerts all show what `evaluate` returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from exporter.core.clock import UnixTime
from exporter.faults.findings import NO_DRIVER, REFUSED, RELEASED, REPAIRS, expected_gpus, gpu_less
from exporter.faults.model import ADVICE_EVIDENCE, FaultKind
from exporter.faults.rule import Facts, Finding, Limits, Rule, Verdict, merge_findings
from exporter.faults.rules import ACTIONS_BY_STRENGTH, NAMES, RULES

AFTER_A_JOB = frozenset({"leftover", "leaked"})
"""Rules that do not count while a job runs."""


@dataclass(frozen=True, slots=True)
class Stage:
    """`budget` are seconds for all of it; findings of a lesser verdict than `least` are left out."""

    budget: float
    least: Verdict = Verdict.OK
    emptied: bool = False
    """True if the checked GPUs must be empty."""
    resumes: bool = False
    """True if a check without findings counts for a drained node: a stage that asks little proves little."""
    program: bool = False
    """True if the site's own program runs, if one is given."""

    @property
    def left_out(self) -> frozenset[str]:
        """Names of the rules that are not asked."""
        return frozenset() if self.emptied else AFTER_A_JOB


STAGES: Mapping[str, Stage] = {
    "prolog": Stage(10.0, Verdict.FAILED),
    "epilog": Stage(20.0, Verdict.FAILED, emptied=True),
    "periodic": Stage(30.0, resumes=True),
    "full": Stage(600.0, emptied=True, resumes=True, program=True),
}


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one node."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    gpus: int
    """GPUs that answer."""
    models: tuple[str, ...]
    simulated: bool = False
    remark: str = ""
    """Reason of an unknown verdict, or of ok without a GPU."""
    confirmed: bool = True
    """False if losses of GPUs were found by one check alone."""

    @property
    def losses(self) -> frozenset[str]:
        """Indices of the GPUs whose loss a second check must confirm; empty for those of the node."""
        return frozenset(finding.gpu for finding in self.findings if finding.confirm)

    @property
    def counted(self) -> str:
        """Number of reachable GPUs, by model."""
        models = Counter(model.removeprefix("NVIDIA ") for model in self.models)
        named = ", ".join(f"{count} x {model}" for model, count in models.items())
        counted = "1 GPU reachable" if self.gpus == 1 else f"{self.gpus} GPUs reachable"
        return counted + (f" ({named})" if named else "")

    @property
    def summary(self) -> str:
        """One line: what is wrong, worst first, or how many GPUs are reachable."""
        return "; ".join(finding.summary for finding in merge_findings(self.findings)) or self.remark or self.counted

    def without_unconfirmed(self) -> Report:
        """Return the report without losses that no second check confirmed: a node is not drained for them."""
        kept = tuple(finding for finding in self.findings if self.confirmed or not finding.confirm)
        return replace(self, findings=kept, verdict=max((each.verdict for each in kept), default=Verdict.OK))

    def with_finding(self, finding: Finding) -> Report:
        """The same with one thing more that is wrong."""
        if self.verdict is Verdict.UNKNOWN:
            return self
        found = tuple(sorted((*self.findings, finding), key=_worst_first))
        return replace(self, verdict=max(self.verdict, finding.verdict), findings=found)


def unknown_report(remark: str) -> Report:
    return Report(Verdict.UNKNOWN, (), 0, (), remark=remark)


def evaluate(facts: Facts, limits: Limits, ignored: Collection[str] = (), least: Verdict = Verdict.OK) -> Report:
    """Return the verdict on what is known; unknown where a fault may stand that is not, and nothing else fails.

    `ignored` are names of rules that are not asked. Findings of a lesser verdict than `least` are left out.
    """
    report = evaluate_known(facts, limits, ignored, least)
    missing = "" if report.verdict >= Verdict.FAILED else _missing_faults(facts)
    return unknown_report(missing) if missing else report


def evaluate_known(facts: Facts, limits: Limits, ignored: Collection[str], least: Verdict) -> Report:
    """Return the same whatever faults may be missing."""
    remark = _unknown_reason(facts, limits)
    if remark:
        return unknown_report(remark)
    found = _apply_rules(facts, limits, (rule for rule in RULES if rule.name not in ignored))
    kept = [finding for finding in _one_per_event(tuple(found)) if finding.verdict >= least]
    report = Report(
        verdict=max((finding.verdict for finding in kept), default=Verdict.OK),
        findings=tuple(sorted(kept, key=_worst_first)),
        gpus=sum(series.value == 1 for series in facts.of("gpu_up")),
        models=facts.models,
        simulated=bool(facts.value("gpu_exporter_simulated")),
        remark="no NVIDIA GPU in this node" if gpu_less(facts, limits) else "",
    )
    shown = any(series.value in {0, 1} for series in facts.of("gpu_up"))
    if not shown and not report.findings and not report.remark:
        return unknown_report("no GPU is shown, and no reason for it is known")
    return report


def _missing_faults(facts: Facts) -> str:
    """Return why faults may stand that no rule finds; empty without a reason."""
    causes = sorted(series.labels["cause"] for series in facts.of("gpu_exporter_faults_incomplete"))
    if causes:
        return f"known faults may be missing: the state file was not understood ({', '.join(causes)})"
    faults = facts.of("gpu_fault_timestamp_seconds")
    newer = {each.labels.get("fault", "") for each in faults} - _KINDS
    newer |= {each.labels.get("action", "") for each in faults} - REPAIRS.keys()
    return f"the exporter reports faults that are newer than this check: {', '.join(sorted(newer))}" if newer else ""


def _worst_first(finding: Finding) -> tuple[int, int]:
    return -finding.verdict, int(finding.gpu or -1)


_KINDS = frozenset(kind.value for kind in FaultKind)
_PENDING = frozenset({"row_remap_pending", "page_pending"})
_RESETS = frozenset({"xid", "ecc_uncorrectable", "ecc_sram_threshold", "row_remap_failed", "lost"})
_LINKS = frozenset(name for name in NAMES if name.startswith(("fabric_", "nvlink_")))
_CAUSES = _PENDING | _LINKS | _KINDS - {"pcie_width", "pcie_generation"} | {"gpu_down"}
"""Rules that can be the cause of the driver's advice. PCIe, heat and power are not."""


def _one_per_event(found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield one finding for each event: one event is reported once, and asks for one repair."""
    by_device: dict[object, list[Finding]] = {}
    for finding in found:
        by_device.setdefault((finding.gpu, finding.uuid), []).append(finding)
    return (finding for mine in by_device.values() for finding in _of_one_gpu(mine))


def _of_one_gpu(found: Sequence[Finding]) -> Iterator[Finding]:
    """Make what the NVLinks show one finding, and the driver's advice a part of the worst one that can be its cause.

    What waits for a reset is explained by the advice, and by a fault that a reset repairs.
    """
    by_weight = sorted(found, key=lambda each: (each.rule in _PENDING, each.short == ADVICE_EVIDENCE, -each.verdict))
    causes = [each for each in by_weight if each.rule in _CAUSES]
    links = [each for each in causes if each.rule in _LINKS]
    advised = [each for each in found if each.rule.startswith("recovery_") or each.short == ADVICE_EVIDENCE]
    advice = [each for each in advised if causes and each is not causes[0]]
    resets = bool(advice) or any(each.rule in _RESETS and each.runbook != "gpuxidworkflow" for each in found)
    for finding in found:
        first, explained = finding in causes[:1], finding.rule in _PENDING and resets
        if finding not in (*links[1:], *advice) and (first or not explained):
            parts = [*(links[1:] if finding in links else ()), *(advice if first else ())]
            yield reduce(_join_findings, parts, finding)


def _join_findings(finding: Finding, part: Finding) -> Finding:
    """Return the finding with a part of the same event: the evidence of both, and the stronger verdict and action."""
    both = replace(finding, reason=f"{finding.reason}; {part.reason}")
    if (part.verdict, _rank_of(part, -1)) <= (finding.verdict, _rank_of(finding, len(ACTIONS_BY_STRENGTH))):
        return both
    return replace(both, verdict=part.verdict, action=part.action, runbook=part.runbook)


def _rank_of(finding: Finding, otherwise: int) -> int:
    known = (rank for rank, action in enumerate(ACTIONS_BY_STRENGTH) if finding.action.startswith(action))
    return next(known, otherwise)


def _unknown_reason(facts: Facts, limits: Limits) -> str:
    if not facts.of("gpu_exporter_build_info"):
        return "not the metrics of gpu-exporter"
    sampled = facts.value("gpu_exporter_last_sample_timestamp_seconds")
    if sampled is not None and facts.time - UnixTime(sampled) > limits.stale:
        return f"the exporter's last sample is {facts.time - UnixTime(sampled):.0f} s old"
    pci, error = facts.value("gpu_devices", source="pci"), facts.of("gpu_exporter_driver_error")
    if error and error[0].labels.get("error") in NO_DRIVER and pci is None and not expected_gpus(facts, limits)[0]:
        return f"the driver is not available ({error[0].labels.get('error')}), and the PCI bus cannot be read"
    if error and error[0].labels.get("error") == RELEASED:
        return "the exporter has let go of the GPUs: the file of maintenance is there"
    if error and error[0].labels.get("error") == REFUSED:
        return f"the driver may not be asked ({REFUSED}): run this as a user who may open /dev/nvidiactl"
    return ""


def _apply_rules(facts: Facts, limits: Limits, rules: Iterable[Rule]) -> Iterator[Finding]:
    shown = sorted(facts.of("gpu_up"), key=lambda series: series.value)
    uuids = {series.gpu: series.labels.get("uuid", "") for series in shown}
    for rule in rules:
        for gpu, values in rule.find(facts, limits):
            reason = rule.text.format(**values)
            action, short = rule.action.format(**values), rule.short.format(**values)
            uuid = str(values.get("uuid", uuids.get(gpu, "")))
            stated = values.get("verdict")
            verdict = stated if isinstance(stated, Verdict) else rule.verdict
            hands = rule.hands and verdict is Verdict.FAILED
            page = rule.runbook.format(**values)
            yield Finding(rule.name, verdict, gpu, uuid, reason, action, short, hands, rule.confirm, page)
