"""Names of programs that no scheduler and no container engine runs: their systemd unit or session, else the command."""

from __future__ import annotations

from exporter.attribution.owner import Owner, of_user, process_owner
from exporter.attribution.process_index import ProcessGroup, ProcessIndex
from exporter.attribution.source import View, by_pid, own_cgroups
from exporter.core.clock import MonotonicTime


class Units:
    """Reads nothing but the cgroups of processes."""

    readers = ()

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        del now
        found = [(group, _owner(group)) for group in processes.groups if group.cgroup.of_host]
        return View(
            names=by_pid(found),
            cgroups=own_cgroups((owner, _path(group, owner)) for group, owner in found),
        )


def _owner(group: ProcessGroup) -> Owner:
    """Return the unit or session of a program, else its command and user.

    What a user named himself is told apart by the user, also where nothing but `workload` is looked at: his unit is not
    the system's of that name, and his programs and sessions are not other people's, here and on all nodes.
    """
    unit = group.cgroup.unit
    if not unit:
        return process_owner(group.command, group.user)
    owner = Owner(f"unit:{unit}", kind="unit", user=group.user)
    users_own = group.cgroup.delegated or not owner.one_work
    return owner._replace(workload=f"unit:{of_user(group.user, unit)}") if users_own else owner


def _path(group: ProcessGroup, owner: Owner) -> str:
    return group.cgroup.unit_path if owner.kind == "unit" and not owner.shares_place else ""
