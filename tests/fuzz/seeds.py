"""What each parser is meant for: input that it understands to its end, to be changed at random."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from exporter.attribution.slurm.device_program import Rule
from exporter.core.clock import UnixTime
from exporter.faults import state_file
from exporter.faults.model import Fault, FaultKind, FaultState, GpuRecord, RepairAction
from tests.attribution_kit.bpf import program

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"

SCONTROL = (
    b"JobId=7 JobName=x UserId=a(1) GroupId=a(1) MCS_label=N/A Account=p QOS=high JobState=RUNNING TimeLimit=1-02:03:04"
    b" Partition=gpu  Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3) MinCPUsNode=1 Command=/x WorkDir=/y"
)
SACCT = (
    b"7|7_1|a|p|gpu|high|c|COMPLETED|0:0|1700000000|1700000600|600|60|1|8|00:10:01||cpu=8,mem=16G,gres/gpu=1|cpu=8,mem=16G\n"
    b"7.batch|7_1.batch|||||c|COMPLETED|0:0|1700000000|1700000600|600||1|8|00:10:01|1024K|cpu=8|\n"
)
PROLOG = (
    b"SLURM_JOB_ID=7\nSLURM_JOB_USER=a\nSLURM_JOB_GPUS=0-1\nSLURM_JOB_START_TIME=1\nSLURM_JOB_END_TIME=61\n"
    b"SLURM_ARRAY_JOB_ID=6\nSLURM_JOB_NUM_NODES=2\nCUDA_VISIBLE_DEVICES=MIG-" + UUID.encode() + b"/1/0\n"
)
DEVICE_PROGRAM = program([Rule(195, minor, minor == 2) for minor in range(4)])
CGROUPS = (
    b"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod01234567_89ab_cdef_0123_456789abcdef.slice/"
    b"cri-containerd-" + b"0123456789abcdef" * 4 + b".scope",
    b"0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0",
)
SLICES = json.dumps(
    {
        "items": [
            {
                "spec": {
                    "nodeName": "n1",
                    "driver": "gpu.nvidia.com",
                    "devices": [{"name": "gpu-0", "attributes": {"uuid": {"string": UUID}}}],
                }
            }
        ]
    }
).encode()
POD = json.dumps(
    {
        "metadata": {"labels": {"leaderworkerset.sigs.k8s.io/size": "4"}},
        "spec": {"containers": [{"env": [{"name": "NNODES", "value": "2"}]}]},
    }
).encode()
CERTIFICATE = (
    b"-----BEGIN CERTIFICATE-----\n"
    b"MIIBbjCCARWgAwIBAgIUaJh4AAZfajaVWnkILdgMw/eXKBAwCgYIKoZIzj0EAwIw\n"
    b"DDEKMAgGA1UEAwwBeDAgFw0yNjExMjIwNjUxMjlaGA8yMTI2MTAyOTA2NTEyOVow\n"
    b"DDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCY2n5G3cevr\n"
    b"ZKLAtOMVIGDn3ZJcdEFSRrDpkEtR632HGFOtp694WqOLSIopTjI7rkUCAa3VnHvI\n"
    b"71mhX7QsUvSjUzBRMB0GA1UdDgQWBBSi6R4lZK9NkA3rZspkKXdQeZdVKDAfBgNV\n"
    b"HSMEGDAWgBSi6R4lZK9NkA3rZspkKXdQeZdVKDAPBgNVHRMBAf8EBTADAQH/MAoG\n"
    b"CCqGSM49BAMCA0cAMEQCIHIAF/5myDvX3wjxGSXg+wG1glw+DuZFWy5B9Y2YAVst\n"
    b"AiBlCfYEXHXzuwRb3tMl5i3Ly3winfi5LsxEzK3QoujHEw==\n"
    b"-----END CERTIFICATE-----\n"
)


def _field(number: int, content: bytes) -> bytes:
    """A field of the protocol buffers' wire format, shorter than 16 KiB."""
    size = len(content)
    return bytes((number << 3 | 2, size & 127 | 128, size >> 7)) + content


_DEVICES = _field(1, b"nvidia.com/gpu") + _field(2, UUID.encode())
_CLAIM = _field(4, _field(2, b"gpu.nvidia.com") + _field(4, b"gpu-0"))
POD_RESOURCES = _field(
    1, _field(1, b"pod") + _field(2, b"ns") + _field(3, _field(1, b"c") + _field(2, _DEVICES) + _field(5, _CLAIM))
)

LISTENERS = (
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    b"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 123 1 0 100 0 0 10 0\n"
)
_FAULT = Fault("G", 0, FaultKind.ECC, "4 of them", RepairAction.RESET, UnixTime(1.0))
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "faults.json"
    state_file.write_state(file, FaultState("b", {"G": GpuRecord(0)}, (_FAULT,), frozenset({("G", "xid")})))
    FAULT_STATE = file.read_bytes()
CONTAINER = "0123456789abcdef" * 4
DOCKER = json.dumps(
    {"ID": CONTAINER, "Name": "/web", "Config": {"Image": "a/b:1", "Labels": {"com.docker.compose.service": "web"}}}
).encode()
PODMAN = json.dumps([{"id": CONTAINER, "names": ["web"]}]).encode()
NODE = json.dumps(
    {
        "metadata": {"labels": {"nvidia.com/gpu.product": "H200", "nvidia.com/gpu.replicas": "1"}},
        "spec": {"unschedulable": True, "taints": [{"key": "a/maintenance"}]},
        "status": {"capacity": {"nvidia.com/gpu": "8"}},
    }
).encode()
NOMAD = json.dumps(
    {
        "allocations": [
            {
                "ID": "01234567-89ab-cdef-0123-456789abcdef",
                "JobID": "train",
                "Namespace": "default",
                "ClientStatus": "running",
                "Job": {"Type": "batch", "ParentID": "nightly"},
                "AllocatedResources": {"Tasks": {"main": {"Devices": [{"Type": "gpu", "DeviceIDs": [UUID]}]}}},
                "TaskStates": {"main": {"Restarts": 2}},
            }
        ]
    }
).encode()
RAS_JSON = json.dumps(
    {
        "communicators": [
            {
                "ranks": [{"rank": 0, "host": "n1", "pid": 7, "nvml_dev": 3, "collective_counts": {"AllReduce": 5}}],
                "missing_ranks": [{"rank": 1, "host": "n2", "pid": 8}],
            }
        ]
    }
).encode()
RAS_TEXT = b"""\
#0-0 (0123456789abcdef) MISMATCH
  3 ranks have launched up to operation 12
  Rank 2 has launched up to operation 11 -- GPU 3 managed by process 7 on node n1
"""
