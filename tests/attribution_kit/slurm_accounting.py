"""A cluster with accounting: slurmdbd and the MariaDB under it, on loopback, in the cluster's directory."""

from __future__ import annotations

import os
import subprocess

from tests.attribution_kit.nodes import until
from tests.attribution_kit.slurm_cluster import ROOT, SlurmCluster, free_port

_SLURM = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={work}/run/munge.sock
AccountingStorageTRES=gres/gpu
"""
_SLURMDBD = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
AuthType=auth/munge
AuthInfo=socket={work}/run/munge.sock
SlurmUser=root
PluginDir={plugins}
PidFile={work}/run/slurmdbd.pid
LogFile={work}/logs/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage}
StorageUser=root
StorageLoc=accounting
"""


class AccountedCluster(SlurmCluster):
    """Start with `with`, as a SlurmCluster."""

    def _configure(self) -> None:
        super()._configure()
        self._storage = free_port()
        libraries = self.environment["LD_LIBRARY_PATH"].partition(":")[0]
        values = {"work": self.work, "port": free_port(), "storage": self._storage, "plugins": f"{libraries}/slurm-wlm"}
        with (self.work / "etc/slurm.conf").open("a") as conf:
            conf.write(_SLURM.format(**values))
        file = self.work / "etc/slurmdbd.conf"
        file.write_text(_SLURMDBD.format(**values))
        file.chmod(0o600)

    def _start_accounting(self) -> None:
        data = self.work / "mariadb"
        data.mkdir()
        # Slurm 24.11 keeps functions in the database, for which MariaDB needs its own tables.
        (tables,) = (ROOT / "usr/share").glob("m*/m*_system_tables.sql")  # of mysql, or mariadb in newer releases
        server = [
            f"{ROOT}/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}", "--skip-grant-tables", "--user=root",
            f"--lc-messages-dir={tables.parent}", f"--plugin-dir={data}", "--innodb-flush-log-at-trx-commit=0",
        ]  # fmt: skip
        made = f"create database mysql;\nuse mysql;\n{tables.read_text()}\ncreate database accounting;\n"
        subprocess.run(
            [*server, "--bootstrap"], env=self.environment, cwd=data, input=made, text=True, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        command = [
            *server, "--bind-address=127.0.0.1", f"--port={self._storage}", f"--socket={self.work}/run/mariadb.sock",
            f"--pid-file={self.work}/run/mariadbd.pid",
        ]  # fmt: skip
        with (self.work / "logs/mariadbd.log").open("wb") as log:
            self._children.append(subprocess.Popen(command, env=self.environment, cwd=data, stdout=log, stderr=log))
        until((self.work / "run/mariadb.sock").exists, 60)
        self.run("slurmdbd")
        until(lambda: "e2e" in self.run("sacctmgr", "-i", "add", "cluster", "e2e", check=False), 60)
        # slurmdbd 24.11 may crash at an account of a cluster that it did not know when it started.
        self.stop_daemon("slurmdbd")
        self.run("slurmdbd")
        until(lambda: "e2e" in self.run("sacctmgr", "-n", "show", "cluster", check=False), 60)
        self.run("sacctmgr", "-i", "add", "account", "physics")
        self.run("sacctmgr", "-i", "add", "user", "root", "account=physics")

    @property
    def commands(self) -> dict[str, str]:
        """This cluster's environment, for programs that call its commands by name."""
        return {**os.environ, **self.environment}
