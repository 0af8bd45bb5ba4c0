"""The root file system of the virtual machine: Debian 12 as a GPU node has it, with Slurm and without a GPU."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_IMAGES = Path(__file__).resolve().parents[2] / ".cache/vm"
PLACE = _IMAGES / hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
"""Of what this file makes: another text is another image."""
KERNEL, RAMDISK, DISK = PLACE / "vmlinuz", PLACE / "initrd.img", PLACE / "root.img"
_RELEASE = "bookworm"
_PACKAGES = (
    *("systemd-sysv", "udev", "dbus", "linux-image-cloud-amd64", "initramfs-tools", "procps", "kmod", "iproute2"),
    *("python3", "ca-certificates", "slurmctld", "slurmd", "slurm-client", "munge", "strace", "curl"),
)
_NOT_NEEDED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "logrotate.timer", "fstrim.timer"),
    *("e2scrub_all.timer", "e2scrub_reap.service", "serial-getty@ttyS0.service"),
)
_NETWORK: Mapping[str, str] = {
    "dummy.netdev": "[NetDev]\nName=dummy0\nKind=dummy\n",
    "dummy.network": "[Match]\nName=dummy0\n[Network]\nAddress=192.0.2.1/24\n",
}
"""An address beside loopback's: without one Slurm resolves no name, not even one of loopback."""
_ROOM_MEGABYTES = 1500
_CONSOLE = """\
[Unit]
After=systemd-user-sessions.service

[Service]
ExecStart=-/sbin/agetty --autologin root --noclear --noissue ttyS0 115200 dumb
StandardInput=tty
TTYPath=/dev/ttyS0
TTYReset=yes
Restart=always

[Install]
WantedBy=multi-user.target
"""
"""Instead of serial-getty@ttyS0, which waits until udev has told of the line: on a busy host it may give that up."""


def build() -> None:
    """Make the image unless it is there: some three minutes, as root, from Debian's mirror."""
    if DISK.exists():
        return
    shutil.rmtree(_IMAGES, ignore_errors=True)
    PLACE.mkdir(parents=True)
    root = PLACE / "root"
    _run("debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", _RELEASE, str(root))
    _configure(root)
    for name, target in (("vmlinuz-*", KERNEL), ("initrd.img-*", RAMDISK)):
        shutil.copy(next((root / "boot").glob(name)), target)
    used = int(subprocess.run(["du", "-sm", root], capture_output=True, check=True).stdout.split()[0])
    unfinished = DISK.with_suffix(".new")
    _run("mke2fs", "-q", "-F", "-t", "ext4", "-d", str(root), str(unfinished), f"{used + _ROOM_MEGABYTES}M")
    unfinished.replace(DISK)
    shutil.rmtree(root)


def _configure(root: Path) -> None:
    """Root logs in on the serial line by itself; Slurm's daemons wait until a test has written their files."""
    (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
    (root / "etc/hostname").write_text("node1\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost node1\n")
    (root / "etc/systemd/system/console.service").write_text(_CONSOLE)
    for name, text in _NETWORK.items():
        (root / "etc/systemd/network" / name).write_text(text)
    _run("chroot", str(root), "systemctl", "enable", "-q", "systemd-networkd", "console")
    _run("chroot", str(root), "passwd", "-d", "root")
    _run("chroot", str(root), "systemctl", "disable", "-q", "slurmctld", "slurmd", "munge")
    _run("chroot", str(root), "systemctl", "mask", "-q", *_NOT_NEEDED)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    build()
