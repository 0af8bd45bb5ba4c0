# ruff: noqa: E501 - a table of texts
"""Every parser of what comes from outside: bytes in; whatever they are, nothing may be raised but what is declared."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import h11

from exporter.attribution import cgroup, devices, documents
from exporter.attribution.background_source import SourceError
from exporter.attribution.containers import engines
from exporter.attribution.kubernetes import api_server, pod_resources
from exporter.attribution.kubernetes.pod import group_size
from exporter.attribution.nomad import source as nomad
from exporter.attribution.slurm import device_program, gres, job, prolog_files, scontrol
from exporter.collectors import sxid, xid
from exporter.config.option import ConfigError
from exporter.core.clock import UnixTime
from exporter.exposition import page
from exporter.faults import acknowledgements, state_file
from exporter.host import cgroup as cgroup_files
from exporter.host import command, nccl_ras, network, process
from exporter.progress import protocol
from exporter.tools.check import drain
from exporter.tools.report.accounting import sacct
from exporter.web import auth, connection, settings, tls
from exporter.web.app import gzip_accepted
from tests.fuzz import seeds

_SCRATCH = Path(tempfile.mkdtemp(prefix="fuzz-"))


class Target(NamedTuple):
    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    """What it is meant for; changed at random."""
    minutes: int = 1
    """Three for what users of the node and the network write."""


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("utf-8", "replace"))


def _file(read: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    def run(data: bytes) -> object:
        path = _SCRATCH / name
        path.write_bytes(data)
        return read(path)

    return run


def _allowed(run: Callable[[bytes], object], *errors: type[Exception]) -> Callable[[bytes], object]:
    def allowed(data: bytes) -> object:
        try:
            return run(data)
        except errors:
            return None

    return allowed


def _one_line(run: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """A mistake in a file of the site is one line."""

    def one(data: bytes) -> object:
        said = ""
        try:
            return run(data)
        except ConfigError as error:
            said = str(error)
        assert "\n" not in said, said
        return None

    return one


def _progress(data: bytes) -> object:
    report = protocol.parse(data)
    numbers = (*report.counters.values(), *report.phases.values()) if report else ()
    assert all(math.isfinite(each) and each >= 0 for each in numbers), report
    return report


def _arguments(data: bytes) -> object:
    shown = command.shown([part.decode(errors="replace") for part in data.split(b"\0")])
    assert len(shown) <= 200, shown
    assert shown.isprintable(), shown
    return shown


def _head(data: bytes) -> object:
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=connection.HEAD_BYTES)
    http.receive_data(data)
    event = http.next_event()
    if not isinstance(event, h11.Request):
        return None
    found = connection._request_environ(event, "peer")
    accept, encoding = (str(found.get(name, "")) for name in ("HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING"))
    return page.PageStore().page(accept)[0], gzip_accepted(encoding)


def _pod(data: bytes) -> object:
    pod = documents.decoded(data)
    return group_size(pod), documents.parts(documents.part(pod, "spec"), "containers")


def _ras(parse: Callable[[str], nccl_ras.RasAnswer]) -> Callable[[bytes], object]:
    def run(data: bytes) -> object:
        answer = parse(data.decode("utf-8", "replace"))
        ranks = [rank for one in answer.communicators for rank in (*one.ranks, *one.missing)]
        assert all(math.isfinite(float(number)) for number in (*answer.pids, *answer.operations.values())), answer
        assert all(len(rank.host) <= 256 and len(rank.gpu) <= 20 for rank in ranks), answer
        return answer.communicators

    return run


def _tasks(data: bytes) -> object:
    tasks = nomad.tasks(documents.part({"all": documents.decoded(data)}, "all").get("allocations"))
    assert all(math.isfinite(float(task.restarts or 0)) for task in tasks), tasks
    return tasks


def _docker(data: bytes) -> object:
    folder = _SCRATCH / "containers" / seeds.CONTAINER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.v2.json").write_bytes(data)
    return engines.find_docker(_SCRATCH, seeds.CONTAINER)


def _cgroup_files(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    numbers = (
        *cgroup_files.parse_flat(text).values(),
        cgroup_files.parse_limit(text),
        cgroup_files.parse_cpu_list(text),
    )
    found = [
        *numbers,
        cgroup_files.parse_cpu_max(text),
        cgroup_files.parse_io_stat(text),
        cgroup_files.parse_blkio(text),
    ]
    assert all(math.isfinite(float(number)) for number in found if number is not None), found
    return any(number is not None for number in found)


_USERS = auth.BasicAuth({"a": "$2b$04$" + "x" * 53}, lambda: 0.0)

TARGETS: Mapping[str, Target] = {
    "scontrol": Target(_text(job.parse_job), (seeds.SCONTROL,), 3),
    "scontrol-nodes": Target(_text(job.hosts), (b"gpu[01-03,7],x[1-2]y",)),
    "scontrol-indices": Target(_text(job.indices), (b"0-3,7",)),
    "scontrol-duration": Target(_text(job.duration), (b"1-02:03:04",)),
    "scontrol-json": Target(
        _allowed(scontrol.parse_jobs, ValueError), (b'{"jobs":[{"job_id":7,"nodes":"n[1-2]","gres_detail":["gpu:1(IDX:0)"]}]}',),
        3,
    ),
    "sacct": Target(_allowed(_text(sacct.parse), sacct.SacctError), (seeds.SACCT,)),
    "gres.conf": Target(_text(lambda text: gres.gpu_files(text, frozenset({"n1"}))), (b"NodeName=n[1-2] Name=gpu File=/dev/nvidia[0-3]",)),
    "mig-minors": Target(_text(gres.mig_minors), (b"gpu0/gi1/ci0/access 12",)),
    "prolog-file": Target(_text(lambda text: prolog_files.parse_job_file("7", text)), (seeds.PROLOG,), 3),
    "prolog-jobs": Target(_text(prolog_files.jobs), (b"7\n8\n",)),
    "environment": Target(lambda data: job.job_variables(job.parse(data)), (b"SLURM_JOB_ID=7\0SLURM_JOB_GPUS=0-3\0",), 3),
    "device-program": Target(device_program.decode, (seeds.DEVICE_PROGRAM,)),
    "cgroup": Target(_text(cgroup.parse), seeds.CGROUPS, 3),
    "device-id": Target(_text(devices.device_of), (f"{seeds.UUID}::3".encode(), b"gpu-0-mig-1g12gb-19-0")),
    "pod-resources": Target(_allowed(pod_resources.decode, SourceError), (seeds.POD_RESOURCES,), 3),
    "pod": Target(_allowed(_pod, SourceError), (seeds.POD,), 3),
    "resource-slices": Target(_allowed(lambda data: api_server.parse_slices(data, "n1"), SourceError), (seeds.SLICES,)),
    "node-object": Target(_allowed(lambda data: api_server.node_of(documents.decoded(data)).gpus, SourceError), (seeds.NODE,)),
    "nomad": Target(_allowed(_tasks, SourceError), (seeds.NOMAD,)),
    "docker": Target(_allowed(_docker, SourceError), (seeds.DOCKER,)),
    "podman-list": Target(_allowed(lambda data: engines._in_list(data, seeds.CONTAINER), SourceError), (seeds.PODMAN,)),
    "nccl-ras-json": Target(_allowed(_ras(nccl_ras.parse_json), nccl_ras.RasError), (seeds.RAS_JSON,), 3),
    "nccl-ras-text": Target(_ras(nccl_ras.parse_text), (seeds.RAS_TEXT,), 3),
    "node-state": Target(_allowed(_text(drain.parse), drain.SlurmError), (b"NodeName=n1 State=IDLE+DRAIN\n   Reason=x [gpu-exporter: 1 good] [root@2026-01-01T00:00:00]\n",)),
    "cgroup-files": Target(_cgroup_files, (b"usage_usec 5\nnr_periods 7\n", b"200000 100000\n", b"4096\n", b"0-3,8\n", b"8:0 rbytes=5 wbytes=6\n", b"8:0 Read 4096\n")),
    "progress": Target(_progress, (b'{"pid":7,"steps":5,"total":10,"phases":{"io":1.5}}',), 3),
    "stat": Target(_text(process.parse_stat), (b"7 (a b) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 99 1000 50",)),
    "status": Target(_text(process.parse_uid), (b"Name:\ta\nUid:\t1\t1\t1\t1\n",)),
    "boot-time": Target(_text(process.parse_boot_time), (b"cpu 1 2\nbtime 1700000000\n",)),
    "pressure": Target(_text(cgroup_files.parse_pressure), (b"some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",)),
    "io": Target(_text(lambda text: process.parse_io(text, "rchar", "read_bytes")), (b"rchar: 5\nread_bytes: 6\n",)),
    "listeners": Target(_text(network.parse_listeners), (seeds.LISTENERS,)),
    "arguments": Target(_arguments, (b"python\0--wandb_key\0abc\0https://u:p@h/?token=x\0-H\0Authorization: Bearer z",), 3),
    "kernel-log": Target(
        _text(lambda text: xid.parse_xid(text, UnixTime(0.0), {})),
        (b"4,1,99,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.",),
        3,
    ),
    "switch-log": Target(
        _text(lambda text: sxid.parse_sxid(text, UnixTime(0.0))),
        (b"4,1,99,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress",),
    ),
    "request": Target(_allowed(_head, h11.RemoteProtocolError), (b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip;q=0.5\r\n\r\n",), 3),
    "credentials": Target(_text(_USERS.known), (b"Basic YTpi",), 3),
    "certificate": Target(_allowed(_text(tls.expiry), ValueError), (seeds.CERTIFICATE,)),
    "web-configuration": Target(
        _one_line(_file(settings.load, "web.yaml")), (b"http_server_config: {headers: {X-Frame-Options: deny}}\nrate_limit: {interval: 1s, burst: 5}\n",)
    ),
    "state-file": Target(_allowed(_file(state_file.read_state, "faults.json"), state_file.StateError), (seeds.FAULT_STATE,)),
    "acknowledgements": Target(
        _allowed(lambda data: (_file(lambda _: None, acknowledgements.NAME)(data), acknowledgements.read_acknowledgements(_SCRATCH)), state_file.StateError),
        (b'{"time":1,"gpu":"G","fault":"lost","by":"a","why":"b"}\n',),
    ),
}  # fmt: skip
