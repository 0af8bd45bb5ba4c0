"""A real Slurm of two nodes on this machine: components of a heterogeneous job get no node in common."""

from __future__ import annotations

from pathlib import Path

from tests.attribution_kit.slurm_kit import Kit


class PairKit(Kit):
    """Start with `with`. Jobs have no cgroup here: there is one tree, in which each node would see both's."""

    def __init__(self) -> None:
        super().__init__("linuxproc")
        self.nodes = (self.node, f"{self.node}b")

    def mapping(self, node: str) -> Path:
        """Where that node's prolog writes."""
        return self.work / f"gpumap-{node}"

    def _configure(self) -> None:
        super()._configure()
        for node in self.nodes:
            self.mapping(node).mkdir(mode=0o750)
        for hook in ("prolog.sh", "epilog.sh"):
            script = self.work / "etc" / hook
            script.write_text(script.read_text().replace("/gpumap\n", "/gpumap-$SLURMD_NODENAME\n"))
