"""Faults in the ledger, the sampling and the attribution: seconds and owners that would be wrong."""

from __future__ import annotations

from tests.planted.fault import Fault

FAULTS = (
    # The ledger
    Fault(
        "ledger/ledger.py",
        "oldest = ledger.clock - retention",
        "oldest = ledger.clock + retention",
        "unit/ledger/test_ledger.py",
    ),
    Fault("ledger/usage.py", "* _energy_part(reading, siblings, divisions)", "", "unit/ledger/test_ledger.py"),
    Fault(
        "ledger/ledger.py",
        "max(0.0, current.time - start)",
        "max(0.0, current.time - ledger.began)",
        "unit/ledger/test_ledger.py",
    ),
    Fault(
        "ledger/ledger.py", "idle = 0.0 if total.active", "idle = 0.0 if not total.active", "unit/ledger/test_ledger.py"
    ),
    Fault("ledger/usage.py", "max(0.0, joules) * part.energy", "joules", "unit/ledger/test_balance.py"),
    Fault(
        "ledger/ledger.py",
        "late.get((uuid, allocation.owner), 0.0)",
        "late.get((uuid, allocation.owner), 1.0)",
        "unit/ledger/test_late_ranks.py",
    ),
    Fault(
        "ledger/ledger.py",
        "past={uuid: past for uuid, past in entry.past.items() if uuid in targets}",
        "past=entry.past",
        "unit/ledger/test_ledger_growth.py",
    ),
    Fault(
        "ledger/ledger.py",
        "used={uuid: seconds for uuid, seconds in entry.used.items() if uuid in targets}",
        "used=entry.used",
        "unit/ledger/test_ledger_growth.py",
    ),
    Fault("ledger/ranks.py", "may_hang = job.hangs is not False", "may_hang = True", "unit/ledger/test_hangs.py"),
    Fault("ledger/history.py", "rest + of_nobody)", "rest)", "unit/ledger/test_used_balance.py"),
    Fault(
        "ledger/ledger.py",
        "sum([ran[each.uuid].rest * each.share for each in inside])",
        "sum([ran[each.uuid].rest for each in inside])",
        "unit/ledger/test_used_balance.py",
    ),
    Fault(
        "ledger/usage.py",
        "target.parent_uuid or target.uuid",
        "target.uuid",
        "unit/ledger/test_used_balance.py",
    ),
    Fault(
        "ledger/ranks.py",
        "for other, each in pasts.items() if other != uuid]",
        "for _, each in pasts.items()]",
        "unit/ledger/test_ranks.py",
    ),
    # Sampling
    Fault("sampling/reader.py", "max(pause, pace)", "pause", "unit/sampling/test_reader.py"),
    Fault(
        "sampling/reader.py",
        "if monotonic - answered > stale",
        "if stale < 0",
        "unit/sampling/test_cached_reading.py",
    ),
    Fault(
        "sampling/reader.py",
        "self._monotonic + max(pause, pace)",
        "self._monotonic",
        "unit/sampling/test_reader.py",
    ),
    Fault("sampling/reader.py", "* 2.0 ** min(refused - 1, 16)", "", "unit/sampling/test_reader.py"),
    Fault("sampling/reader.py", "error or losses.words", "error", "unit/sampling/test_reader.py"),
    Fault("sampling/gpus.py", "self.answered == NEVER", "False", "unit/sampling/test_late_gpu.py"),
    Fault(
        "sampling/gpus.py",
        "self.failure in (LATE, SILENT, SICK) and monotonic",
        "monotonic",
        "unit/sampling/test_late_gpu.py",
    ),
    Fault(
        "sampling/gpus.py",
        "min(monotonic, result.at + sum([outcome.seconds for outcome in result.outcomes]))",
        "monotonic",
        "unit/sampling/test_gpus.py",
    ),
    Fault("sampling/host_view.py", "<= self._stale", "<= self._stale * 100", "unit/sampling/test_host_view.py"),
    # Owners
    Fault("attribution/slurm/scontrol.py", "> RETURN_SECONDS", "> 1e9", "unit/attribution/test_scontrol.py"),
    Fault("attribution/slurm/scontrol.py", "now + UNKNOWN_SECONDS", "now", "unit/attribution/test_scontrol.py"),
    Fault(
        "attribution/slurm/reconciliation.py",
        "since) >= SETTLE_SECONDS",
        "since) >= 0",
        "unit/attribution/test_slurm_reconciliation.py",
    ),
    Fault(
        "attribution/slurm/reconciliation.py",
        ' and "COMPLETING" not in words',
        "",
        "unit/attribution/test_slurm_reconciliation.py",
    ),
    Fault("attribution/join.py", "< LAST_OWNER_SECONDS", "< 0", "unit/attribution/test_join.py"),
    Fault(
        "attribution/join.py",
        "if now - entry[1] < LAST_OWNER_SECONDS",
        "",
        "unit/attribution/test_attribution_growth.py",
    ),
    Fault(
        "attribution/slurm/scontrol.py",
        "now - seen > FORGET_SECONDS",
        "now < 0",
        "unit/attribution/test_attribution_growth.py",
    ),
    Fault(
        "attribution/kubernetes/source.py",
        "now - answer.at > LAST_KNOWN_SECONDS",
        "now - answer.at > 1e9",
        "contract/attribution/test_pod_resources.py unit/attribution/test_join_kubernetes.py",
    ),
    Fault(
        "attribution/kubernetes/source.py",
        "self._seen = {uid: at for uid, at in self._seen.items() if now - at <= _FORGET_SECONDS}",
        "self._seen = dict(self._seen)",
        "unit/attribution/test_attribution_growth.py",
    ),
    Fault(
        "attribution/kubernetes/allocations.py",
        "known = self._refuted & {pod for pod, _ in entries}",
        "known = self._refuted",
        "unit/attribution/test_attribution_growth.py",
    ),
    Fault(
        "attribution/kubernetes/allocations.py",
        "self._used = entries & (self._used | runs)",
        "self._used = self._used | (entries & runs)",
        "unit/attribution/test_attribution_growth.py",
    ),
    Fault("attribution/background_source.py", "> HANGS_SECONDS", "> 1e9", "unit/attribution/test_background_source.py"),
    # ... the most trusted source alone
    Fault(
        "attribution/join.py",
        "ended={name: end for view in reversed(views)",
        "ended={name: end for view in (views)",
        "unit/attribution/test_source.py",
    ),
    Fault(
        "attribution/join.py",
        "found = {owner: path for view in reversed(views)",
        "found = {owner: path for view in (views)",
        "unit/attribution/test_source.py",
    ),
    Fault(
        "attribution/slurm/source.py",
        "partition=noted.partition or known.partition",
        "partition=known.partition or noted.partition",
        "unit/attribution/test_slurm_mapping.py",
    ),
    Fault(
        "attribution/slurm/source.py",
        "TRUST = (MAPPING, PROGRAM, SCONTROL, ENVIRON)",
        "TRUST = (MAPPING, SCONTROL, PROGRAM, ENVIRON)",
        "unit/attribution/test_join_slurm.py",
    ),
    Fault(
        "attribution/slurm/source.py",
        "if cached and detailed and cached.gres is None",
        "if cached and detailed",
        "unit/attribution/test_slurm_questions.py",
    ),
    Fault(
        "attribution/slurm/prolog_files.py",
        "all(users[device] == 1 for device",
        "any(users[device] == 1 for device",
        "unit/attribution/test_slurm_mapping.py",
    ),
    # ... and guesses that must not be made
    Fault(
        "attribution/kubernetes/pod_owners.py",
        "if paths.setdefault(owner, own) != own:\n                paths[owner] = group.cgroup.pod_path",
        "paths.setdefault(owner, own)",
        "unit/attribution/test_join_kubernetes.py",
    ),
    Fault(
        "attribution/kubernetes/source.py",
        "if len(candidates) == 1:",
        "if candidates:",
        "unit/attribution/test_join_kubernetes.py",
    ),
    Fault(
        "attribution/kubernetes/allocations.py",
        "containers.pop() if len(containers) == 1 else",
        "containers.pop() if containers else",
        "unit/attribution/test_kubelet_disagreement.py",
    ),
    Fault(
        "attribution/kubernetes/allocations.py",
        " and containers[place.pod_name] == 1",
        "",
        "unit/attribution/test_kubelet_disagreement.py",
    ),
    Fault(
        "attribution/join.py",
        "(holder.namespace, holder.pod) == (owner.namespace, owner.pod)",
        "holder.pod == owner.pod",
        "unit/attribution/test_unreserved.py",
    ),
    Fault(
        "attribution/slurm/prolog_files.py",
        "ended={job: end for job, end in ended.items() if job not in files.devices}",
        "ended=ended",
        "unit/attribution/test_slurm_mapping.py",
    ),
    Fault(
        "attribution/kubernetes/allocations.py",
        " & groups and not pod.ended]",
        " & groups]",
        "unit/attribution/test_kubelet_disagreement.py",
    ),
    Fault(
        "attribution/kubernetes/allocations.py",
        " and not whole & slots.keys()",
        "",
        "unit/attribution/test_kubelet_disagreement.py",
    ),
    Fault(
        "attribution/nomad/source.py",
        "if not group.cgroup.scheduled and (task",
        "if (task",
        "contract/attribution/test_nomad.py",
    ),
    Fault(
        "attribution/nomad/source.py",
        "self._queries = 0  #",
        "pass  #",
        "contract/attribution/test_nomad.py",
    ),
    Fault(
        "attribution/join.py",
        "if owner in known and owner != label}",
        "if owner != label}",
        "unit/attribution/test_source.py",
    ),
    Fault(
        "collectors/processes.py",
        "max([cursor, *[sample",
        "max([0, *[sample",
        "unit/collectors/test_gpu_processes.py",
    ),
    Fault("sampling/usage/nccl_status.py", '"Uid:", 1, 3', '"Uid:", 1, 2', "unit/sampling/test_nccl_status.py"),
)
