"""A real slurmctld with 10,000 nodes, of which one has a slurmd, and a count of what it is asked and answers."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import threading
import time
from collections.abc import Mapping

from tests.attribution_kit.nodes import until
from tests.attribution_kit.slurm_cluster import SlurmCluster

NODES = 10_000
_EMULATED = (
    f"NodeName=emulated[00001-{NODES - 1:05}] NodeAddr=127.0.0.1 Port=1 CPUs=32 RealMemory=1000 Gres=gpu:fake:8\n"
)
_COUNT = re.compile(r"^\s*(REQUEST_\w+)\s*\(\s*\d+\) count:(\d+)", re.MULTILINE)


class Relay:
    """Stands between scontrol and slurmctld, and counts connections and the bytes of answers."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self.connections = 0
        self.answered_bytes = 0
        self.delay = 0.0
        """Seconds that slurmctld takes for an answer on top."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._lock:
                    self.connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            asking = threading.Thread(target=self._copy, args=(client, server), daemon=True)
            asking.start()
            self._copy(server, client, answers=True)
            asking.join()

    def _copy(self, source: socket.socket, target: socket.socket, *, answers: bool = False) -> None:
        with contextlib.suppress(OSError):
            if answers and self.delay:
                time.sleep(self.delay)
            while data := source.recv(1 << 16):
                if answers:
                    with self._lock:
                        self.answered_bytes += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


class LargeCluster(SlurmCluster):
    """Start with `with`. The scontrol of the exporter goes through `relay`; `run` does not."""

    relay: Relay

    def _configure(self) -> None:
        super()._configure()
        conf = self.work / "etc/slurm.conf"
        text = conf.read_text().replace(
            "PartitionName=gpu Nodes=ALL", f"{_EMULATED}PartitionName=gpu Nodes={self.node}"
        )
        text += "SlurmdTimeout=0\n"
        conf.write_text(text)
        port = int(text.partition("SlurmctldPort=")[2].split()[0])
        self.relay = Relay(port)
        own = self.work / "relayed"
        own.mkdir()
        (own / "slurm.conf").write_text(text.replace(f"SlurmctldPort={port}\n", f"SlurmctldPort={self.relay.port}\n"))
        shutil.copy(self.work / "etc/gres.conf", own)
        command = self.wrapped("scontrol")
        # slurmd, which listpids asks, knows only its own slurm.conf
        command.write_text(
            f'#!/bin/sh\nconf={own}\n[ "$1" = listpids ] && conf={self.work}/etc\n'
            + command.read_text().partition("\n")[2].replace(f"{self.work}/etc/slurm.conf", "$conf/slurm.conf")
        )

    def _await_nodes(self) -> None:
        until(lambda: self.run("sinfo", "-h", "-n", self.node, "-o", "%t", check=False).strip() == "idle")

    @property
    def scontrol_has_json(self) -> bool:
        return "--json" in self.run("scontrol", "--help", check=False)

    def requests(self) -> Mapping[str, int]:
        """RPCs that slurmctld has answered, by kind (sdiag)."""
        return {name: int(count) for name, count in _COUNT.findall(self.run("sdiag"))}

    def __exit__(self, *_: object) -> None:
        try:
            super().__exit__()
        finally:
            self.relay.close()
