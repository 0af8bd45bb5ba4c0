"""From facts to a verdict: every rule is asked, the worst finding decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from exporter.core.clock import UnixTime
from exporter.faults.facts import Facts
from exporter.faults.findings import NO_DRIVER, REFUSED, expected_gpus, gpu_less
from exporter.faults.rule import Finding, Limits, Rule, Verdict
from exporter.faults.rules import RULES


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
    """Why the verdict is unknown, or ok without a GPU."""
    confirmed: bool = True
    """False if losses of GPUs were found by one look alone."""

    @property
    def losses(self) -> frozenset[str]:
        """Indices of the GPUs whose loss a second look must confirm; empty for those of the node."""
        return frozenset(finding.gpu for finding in self.findings if finding.confirm)

    def proven(self) -> Report:
        """Return the report without losses that no second look confirmed: a node is not drained for them."""
        kept = tuple(finding for finding in self.findings if self.confirmed or not finding.confirm)
        return replace(self, findings=kept, verdict=max((each.verdict for each in kept), default=Verdict.OK))

    def with_finding(self, finding: Finding) -> Report:
        """The same with one thing more that is wrong."""
        if self.verdict is Verdict.UNKNOWN:
            return self
        found = tuple(sorted((*self.findings, finding), key=lambda each: (-each.verdict, int(each.gpu or -1))))
        return replace(self, verdict=max(self.verdict, finding.verdict), findings=found)


def unknown(remark: str) -> Report:
    return Report(Verdict.UNKNOWN, (), 0, (), remark=remark)


def judge(facts: Facts, limits: Limits, ignored: Collection[str] = (), rules: Sequence[Rule] = RULES) -> Report:
    """The verdict on what is known. `ignored` are names of rules that are not asked."""
    remark = _not_judged(facts, limits)
    if remark:
        return unknown(remark)
    found = tuple(_findings(facts, limits, (rule for rule in rules if rule.name not in ignored)))
    report = Report(
        verdict=max((finding.verdict for finding in found), default=Verdict.OK),
        findings=tuple(sorted(found, key=lambda f: (-f.verdict, int(f.gpu or -1)))),
        gpus=sum(series.value == 1 for series in facts.of("gpu_up")),
        models=facts.models,
        simulated=bool(facts.value("gpu_exporter_simulated")),
        remark="no NVIDIA GPU in this node" if gpu_less(facts, limits) else "",
    )
    causes = sorted(series.labels["cause"] for series in facts.of("gpu_exporter_faults_incomplete"))
    if causes and report.verdict is not Verdict.FAILED:
        return unknown(f"known faults may be missing: the state file was not understood ({', '.join(causes)})")
    return report


def _not_judged(facts: Facts, limits: Limits) -> str:
    if not facts.of("gpu_exporter_build_info"):
        return "not the metrics of gpu-exporter"
    sampled = facts.value("gpu_exporter_last_sample_timestamp_seconds")
    if sampled is not None and facts.time - UnixTime(sampled) > limits.stale:
        return f"the exporter's last sample is {facts.time - UnixTime(sampled):.0f} s old"
    pci, error = facts.value("gpu_devices", source="pci"), facts.of("gpu_exporter_driver_error")
    if error and error[0].labels.get("error") in NO_DRIVER and pci is None and not expected_gpus(facts, limits)[0]:
        return f"the driver is not available ({error[0].labels.get('error')}), and the PCI bus cannot be read"
    if error and error[0].labels.get("error") == REFUSED:
        return f"the driver may not be asked ({REFUSED}): run this as a user who may open /dev/nvidiactl"
    return ""


def _findings(facts: Facts, limits: Limits, rules: Iterable[Rule]) -> Iterable[Finding]:
    shown = sorted(facts.of("gpu_up"), key=lambda series: series.value)
    uuids = {series.gpu: series.labels.get("uuid", "") for series in shown}
    for rule in rules:
        for gpu, values in rule.find(facts, limits):
            reason = rule.text.format(**values)
            action, short = rule.action.format(**values), rule.short.format(**values)
            uuid = str(values.get("uuid", uuids.get(gpu, "")))
            yield Finding(rule.name, rule.verdict, gpu, uuid, reason, action, short, rule.hands, rule.confirm)
