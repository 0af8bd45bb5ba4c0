"""A real Slurm that finds GPUs or MIG instances by itself (AutoDetect=nvml) in the fake driver, in its own namespace.

Debian's NVML plugin of Slurm reads /proc/driver/nvidia-caps/mig-minors and wants the device nodes it names to be there:
slurmd and its jobs see folders with both in the places of this machine's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from exporter.attribution.owner import Target
from exporter.attribution.slurm.gres import NVIDIA_MAJOR
from tests.attribution_kit import slurm_cluster
from tests.attribution_kit.slurm_cluster import LIBRARIES, ROOT, TRACKING, SlurmCluster
from tests.fake_nvml.build import SONAME, build
from tests.fake_nvml.scenario import Scenario, Value, mig_instance, node, uuid

INSTANCES = ((0, 0, 9), (0, 1, 11), (1, 0, 13), (1, 1, 7))
"""GPU, place and number of each. This slurmd looks no further than the first place that is empty."""
_CAPS_MAJOR = 241
_NAMESPACE = """\
#!/bin/sh
set -e
mount -t tmpfs none /proc/driver
mkdir /proc/driver/nvidia-caps
cp {work}/mig-minors /proc/driver/nvidia-caps/
mkdir {work}/dev
mount -t tmpfs none {work}/dev
for each in null zero full random urandom tty ptmx; do
    : >{work}/dev/$each
    mount --bind /dev/$each {work}/dev/$each
done
for each in pts shm; do
    mkdir {work}/dev/$each
    mount --rbind /dev/$each {work}/dev/$each
done
mkdir {work}/dev/nvidia-caps
{nodes}
mount --move {work}/dev /dev
exec "$@"
"""


def _lacking() -> str:
    if slurm_cluster.LACKING:
        return slurm_cluster.LACKING
    if not (LIBRARIES / "slurm-wlm/gpu_nvml.so").exists():
        return "Slurm's NVML plugin is not here: Debian's contrib could not be reached by .ci/make/fetch-slurm.sh"
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        return "no mount namespace may be made here"
    return ""


LACKING = _lacking()


def targets() -> tuple[Target, ...]:
    """The instances, as the driver names them."""
    return tuple(
        Target(
            uuid=str(mig_instance(gpu, place, number, "1g.10gb")[f"gpu{gpu}.mig{place}.uuid"]),
            index=gpu,
            pci_bus_id=str(node(2)[f"gpu{gpu}.bus_id"]),
            minor=gpu,
            parent_uuid=uuid(gpu),
            gpu_instance=number,
            compute_instance=0,
            profile="1g.10gb",
            share=1 / 7,
        )
        for gpu, place, number in INSTANCES
    )


class MigCluster(SlurmCluster):
    """Start with `with`: four GPUs of Slurm's that are instances of two."""

    def __init__(self) -> None:
        super().__init__(TRACKING[0])

    def _configure(self) -> None:
        super()._configure()
        made = {key: value for each in INSTANCES for key, value in mig_instance(*each, "1g.10gb").items()}
        minors: list[str] = []
        nodes = {f"nvidia{gpu}": (NVIDIA_MAJOR, gpu) for gpu in (0, 1)}
        for gpu, _, number in INSTANCES:
            for part in ("", "/ci0"):
                minors.append(f"gpu{gpu}/gi{number}{part}/access {len(minors) + 1}\n")
                nodes[f"nvidia-caps/nvidia-cap{len(minors)}"] = (_CAPS_MAJOR, len(minors))
        self._detects({**node(2), **made}, nodes, "".join(minors))
        self._lists(f"gpu:{len(INSTANCES)}", "AutoDetect=nvml\n")

    def _detects(self, driver: Mapping[str, Value], nodes: Mapping[str, tuple[int, int]], mig_minors: str) -> None:
        """What slurmd finds: what the driver answers, and device nodes with their numbers."""
        scenario = Scenario(self.work / "scenario", {**driver, "gpu.cpus": 2})
        self.environment["FAKE_NVML_SCENARIO"] = str(scenario.path)
        (self.work / "driver").mkdir()
        for name in (SONAME, SONAME.removesuffix(".1")):  # Slurm looks for the one, its plugin for the other
            (self.work / "driver" / name).symlink_to(build() / SONAME)
        self.environment["LD_LIBRARY_PATH"] += f":{self.work}/driver"
        (self.work / "mig-minors").write_text(mig_minors)
        made = (f"mknod -m 666 {self.work}/dev/{name} c {major} {minor}" for name, (major, minor) in nodes.items())
        script = self.work / "namespace"
        script.write_text(_NAMESPACE.format(work=self.work, nodes="\n".join(made)))
        script.chmod(0o755)

    def _lists(self, gres: str, gres_conf: str) -> None:
        """What the node has by slurm.conf, and by gres.conf."""
        conf = self.work / "etc/slurm.conf"
        text = conf.read_text().replace("Gres=gpu:fake:8,shard:32", f"Gres={gres}")
        conf.write_text(text.replace("GresTypes=gpu,shard", "GresTypes=gpu"))
        (self.work / "etc/gres.conf").write_text(gres_conf)

    def start_daemon(self, node: str) -> None:
        daemon = ("slurmd", "-c", "-N", node, "-d", f"{ROOT}/usr/sbin/slurmstepd")
        self.run("unshare", "-m", f"{self.work}/namespace", *daemon)


class ListedCluster(MigCluster):
    """GPUs of two kinds that gres.conf lists by their files and slurmd detects too; NVML's order is none of theirs."""

    def _configure(self) -> None:
        SlurmCluster._configure(self)
        kinds = {f"gpu{gpu}.name": f"NVIDIA {'AH'[gpu % 2]}100" for gpu in range(4)}
        minors = {f"gpu{gpu}.minor": 3 - gpu for gpu in range(4)}
        nodes = {f"nvidia{gpu}": (NVIDIA_MAJOR, gpu) for gpu in range(4)}
        self._detects({**node(4), **kinds, **minors}, nodes, "")
        listed = "Name=gpu Type=h100 File=/dev/nvidia[0,2]\nName=gpu Type=a100 File=/dev/nvidia[1,3]\n"
        self._lists("gpu:h100:2,gpu:a100:2", f"AutoDetect=nvml\n{listed}")
