"""A real Slurm of two nodes on this machine: a requeued job may go to the other one."""

from __future__ import annotations

from pathlib import Path

from tests.attribution_kit.slurm_cluster import SlurmCluster
from tests.attribution_kit.slurm_kit import Kit


class PairCluster(SlurmCluster):
    """Start with `with`. Jobs have no cgroup here: there is one tree, in which each node would see both's."""

    def __init__(self) -> None:
        super().__init__("linuxproc")
        self.nodes = (self.node, f"{self.node}b")

    def mapping(self, node: str) -> Path:
        """Where that node's prolog writes."""
        return self.work / f"gpumap-{node}"

    def scontrol_of(self, node: str) -> Path:
        """Return the scontrol of that node: it finds the sockets of slurmd and of slurmstepds by the node's name."""
        return self.work / f"scontrol-{node}"

    def node_of(self, pid: int) -> str:
        """Return the node that started a job's program, by its environment; empty if it has ended."""
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return ""
        name = b"SLURMD_NODENAME="
        return next((each[len(name) :].decode() for each in variables if each.startswith(name)), "")

    def _configure(self) -> None:
        super()._configure()
        for node in self.nodes:
            self.mapping(node).mkdir(mode=0o750)
            command = self.scontrol.read_text().replace(f"SLURMD_NODENAME={self.node} ", f"SLURMD_NODENAME={node} ")
            self.scontrol_of(node).write_text(command.replace("${0##*/}", "scontrol"))
            self.scontrol_of(node).chmod(0o755)
        for hook in ("prolog.sh", "epilog.sh"):
            script = self.work / "etc" / hook
            script.write_text(script.read_text().replace("/gpumap\n", "/gpumap-$SLURMD_NODENAME\n"))


class PairKit(PairCluster, Kit):
    """Start with `with`. Components of a heterogeneous job get no node in common."""
