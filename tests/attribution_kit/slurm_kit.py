"""A real Slurm with the Slurm kit in use: prolog, epilog, the controller's hooks, the health check."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.attribution_kit.slurm_accounting import AccountedCluster
from tests.fake_nvml.build import build
from tests.fake_nvml.scenario import Scenario, node

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "deploy/slurm"

_HOOK = """\
#!/bin/sh
date +%s.%N >> {work}/{name}.$SLURM_JOB_ID
exec {kit}/{name} {work}/gpumap
"""
_SETTINGS = """\
GPU_EXPORTER={work}/gpu-exporter
GPU_EXPORTER_EXPECT_GPUS=8
GPU_EXPORTER_CHECK_DEADLINE=20s
GPU_EXPORTER_SLURM_SCONTROL={scontrol}
GPU_EXPORTER_PATH_KMSG=/nonexistent
GPU_EXPORTER_STATE_DIR=
GPU_EXPORTER_PATH_SYSFS={work}/sys
LD_LIBRARY_PATH={library}
FAKE_NVML_SCENARIO={scenario}
"""
_COMMAND = """\
#!/bin/sh
cd {root} && exec {python} -m exporter "$@"
"""


class Kit(AccountedCluster):
    """A Slurm with the kit installed as docs/how-to/slurm.md has it, over a fake driver with eight GPUs."""

    def _configure(self) -> None:
        super()._configure()
        self.scenario = Scenario(self.work / "scenario", {**node(8), "gpu.utilization": 40})
        library = build()
        self.driver = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_SCENARIO": str(self.scenario.path)}
        (self.work / "sys/bus/pci/devices").mkdir(parents=True)
        values = {"work": self.work, "kit": KIT, "root": ROOT, "python": sys.executable, "library": library}
        values |= {"scenario": self.scenario.path, "scontrol": self.scontrol}
        files = {
            "etc/prolog.sh": _HOOK.format(name="prolog", **values),
            "etc/epilog.sh": _HOOK.format(name="epilog", **values),
            "etc/check": _SETTINGS.format(**values),
            "gpu-exporter": _COMMAND.format(**values),
        }
        for name, text in files.items():
            (self.work / name).write_text(text)
            (self.work / name).chmod(0o755)
        self.controller_hook = self.work / "etc/epilogctld"
        hook = (KIT / "epilogctld").read_text().replace("/var/lib/gpu-exporter-summaries", str(self.work))
        self.controller_hook.write_text(hook)
        self.controller_hook.chmod(0o755)
        (self.work / "ended").mkdir()
        for folder in ("gpumap", "ended"):  # as the package and the unit make them
            (self.work / folder).chmod(0o750)
        hint = (KIT / "job_submit.lua").read_text().replace("/var/lib/gpu-exporter-summaries", str(self.work))
        (self.work / "etc/job_submit.lua").write_text(hint)
        health = self.work / "etc/healthcheck"
        # slurmd starts one every three seconds, whatever the one before takes: on a busy machine they pile up.
        health.write_text(
            f"#!/bin/sh\nexport GPU_EXPORTER_CHECK_SETTINGS={self.work}/etc/check\n"
            f"exec flock -n {self.work}/check.lock {KIT}/healthcheck\n"
        )
        health.chmod(0o755)
        with (self.work / "etc/slurm.conf").open("a") as conf:
            conf.write(f"EpilogSlurmctld={self.controller_hook}\nJobSubmitPlugins=lua\n")
            conf.write(f"HealthCheckProgram={health}\nHealthCheckInterval=3\nHealthCheckNodeState=ANY\n")

    def state(self) -> str:
        return self.run("scontrol", "show", "node", self.node)
