"""The Debian package on a machine that runs: upgrade, removal and purge, while Slurm's hooks are in use. Last."""

from __future__ import annotations

from tests.vm.machine import Machine
from tests.vm.site import INSTALL_SECONDS, KIT, SETTINGS, idle, serves

_JOB = "sbatch -W -o /dev/null --gres=gpu:1 --mem=100 --wrap true"
_LEFT = "find / -xdev -path /in -prune -o -name '*gpu-exporter*' -not -path '/var/lib/dpkg/*' -print"


def test_upgrade_restarts_and_keeps_what_was_configured(vm: Machine) -> None:
    serves(vm)
    before = vm.run("systemctl show -p MainPID --value gpu-exporter")
    vm.run("dpkg -i /in/gpu-exporter.deb", seconds=INSTALL_SECONDS)

    serves(vm)
    assert vm.run("systemctl show -p MainPID --value gpu-exporter") != before
    assert "FAKE_NVML" in vm.run(f"cat {SETTINGS}")
    assert vm.run("systemctl is-enabled gpu-exporter").strip() == "enabled"


def test_jobs_run_on_when_the_package_is_removed(vm: Machine) -> None:
    """One hook is a copy as documented, the other a link, as older instructions had it."""
    vm.run(f"ln -sf {KIT}/epilog.d/gpu-exporter /etc/slurm/epilog.d/gpu-exporter")
    vm.run("dpkg -r gpu-exporter")
    idle(vm)
    assert "Submitted" in vm.run(_JOB)
    idle(vm)
    assert "FAKE_NVML" in vm.run(f"cat {SETTINGS}")
    assert vm.run("systemctl is-active gpu-exporter", check=False).strip() == "inactive"


def test_nothing_is_left_when_the_package_is_purged(vm: Machine) -> None:
    vm.run("dpkg -P gpu-exporter")
    assert sorted(vm.run(_LEFT).split()) == ["/etc/slurm/epilog.d/gpu-exporter", "/etc/slurm/prolog.d/gpu-exporter"]
    assert "Submitted" in vm.run(_JOB)
    idle(vm)
