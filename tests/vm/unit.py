"""The service as its unit has it, under a real systemd: sandbox, watchdog, memory limit, warnings in the journal."""

from __future__ import annotations

from tests.vm.machine import Machine
from tests.vm.site import METRICS, SETTINGS, drop_in, restarts, serves, without_drop_in

_PID = "$(systemctl show -p MainPID --value gpu-exporter)"
_INSIDE = f"nsenter -m -t {_PID} setpriv --reuid gpu-exporter --regid gpu-exporter --clear-groups"


def test_machine_is_what_sites_have(vm: Machine) -> None:
    assert vm.run("stat -fc %T /sys/fs/cgroup").strip() == "cgroup2fs"
    assert vm.run("cat /proc/1/comm").strip() == "systemd"


def test_unit_serves_without_any_right_beside_reading(vm: Machine) -> None:
    serves(vm)
    status = vm.run(f"cat /proc/{_PID}/status")

    assert vm.run(f"ps -o user:20= -p {_PID}").strip() == "gpu-exporter"
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    for place in ("/usr", "/etc", "/run/gpu-exporter/jobs", "/sys/fs/cgroup"):
        said = vm.run(f"{_INSIDE} touch {place}/written", check=False)
        assert "Read-only" in said or "denied" in said, said
    assert "denied" in vm.run(f"{_INSIDE} ls /root", check=False)
    vm.run(f"{_INSIDE} touch /var/lib/gpu-exporter/written && rm /var/lib/gpu-exporter/written")


def test_service_that_hangs_is_started_anew(vm: Machine) -> None:
    drop_in(vm, "WatchdogSec=60", "TimeoutStopSec=5")
    serves(vm)
    before = restarts(vm)
    vm.run("systemctl kill -s STOP gpu-exporter")
    vm.becomes(rf"^{before + 1}$", "systemctl show -p NRestarts --value gpu-exporter", 900)
    serves(vm)

    assert "Watchdog timeout" in vm.run("journalctl -u gpu-exporter -q --no-pager")
    without_drop_in(vm)


def test_memory_is_limited_and_far_from_its_limit(vm: Machine) -> None:
    serves(vm)
    folder = "/sys/fs/cgroup/system.slice/gpu-exporter.service"
    limit, peak = vm.run(f"cat {folder}/memory.max {folder}/memory.peak").split()
    assert int(limit) == 512 << 20
    assert int(peak) < int(limit) / 3

    before = restarts(vm)
    vm.run("systemctl set-property --runtime gpu-exporter MemoryMax=16M", check=False)
    vm.becomes("oom-kill", "journalctl -u gpu-exporter -q --no-pager")
    vm.run("systemctl revert gpu-exporter; systemctl daemon-reload")
    serves(vm)
    assert restarts(vm) > before
    assert vm.run(f"cat {folder}/memory.max").strip() == limit


def test_warnings_reach_the_journal_as_warnings(vm: Machine) -> None:
    warnings = "journalctl -u gpu-exporter -q --no-pager -p warning"
    vm.run(f"systemctl stop gpu-exporter; sed -i s/9836/98360/ {SETTINGS}; systemctl start gpu-exporter", check=False)
    try:
        vm.becomes("GPU_EXPORTER_WEB_LISTEN_ADDRESS.*98360", warnings)
    finally:
        vm.run(f"sed -i s/98360/9836/ {SETTINGS}; systemctl reset-failed gpu-exporter; systemctl restart gpu-exporter")
    serves(vm)


def test_device_of_a_module_that_is_loaded_later_may_be_opened(vm: Machine) -> None:
    """No nvidia in /proc/devices, as before the module is loaded; and no driver behind it: ENXIO, not EPERM."""
    run = "systemd-run -q --pipe --wait -p DevicePolicy=closed {} sh -c 'exec 3</dev/nvidia0'"

    assert "not permitted" in vm.run(run.format("-p 'DeviceAllow=char-nvidia* rw'"), check=False)
    assert "No such device" in vm.run(run.format("-p 'DeviceAllow=char-195 rw'"), check=False)
    assert "char-195" in vm.run("systemctl show -p DeviceAllow --value gpu-exporter")


def test_port_is_the_only_thing_that_is_served(vm: Machine) -> None:
    listening = vm.run(f"ss -Hlntp | grep pid={_PID}, || true")

    assert [line.split()[3].rpartition(":")[2] for line in listening.splitlines()] == ["9836"]
    assert vm.run(f"{METRICS} | grep -c '^gpu_'").strip() != "0"
