"""The simulated cluster: 32 nodes under Kubernetes and Slurm, most of them well, and what is planted in the others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """`planted` is what an operator should find on it; empty where all is well."""

    instance: str
    cluster: str
    spec: str
    planted: str = ""


_WELL = (
    # Kubernetes                              Slurm
    ("4xH200:4*training;churn=9000",          "2xH100:2*training;churn=12000"),
    ("2xH200:2*training",                     "4xH100:4*power-capped"),
    ("4xH100:2*training,2*inference",         "4xH100:2*training,2*memory-bound"),
    ("2xL40S:1*inference,1*inference",        "2xA100:2*training"),
    ("2xL40S:1*inference,1*notebook",         "4xA100:2*training,2*communication-bound"),
    ("1xA100-mig",                            "2xV100:2*training"),
    ("2xT4:1*inference,1*free",               "2xA100:1*training,1*free"),
    ("2xA10:1*inference,1*free",              "2xA100:2*free"),
    ("1xH200-mig",                            "2xB200:2*training"),
)  # fmt: skip

# fmt: off
_PLANTED = (
    # cluster, GPUs and their work, what goes wrong
    ("east", "4xH200:4*input-bound",                                   "a job that waits for its data loader"),
    ("east", "4xH100:2*training,2*allocated-idle",                          "a pod that holds GPUs and runs nothing"),
    ("east", "4xH200:4*training;fault=lost:2@1500",                    "a GPU that fell off the bus"),
    ("east", "2xH100:2*training;fault=thermal:1@600",                  "a GPU too hot"),
    ("east", "4xA100:4*tiny-kernels",                                  "kernels too small"),
    ("east", "2xRTX4090:1*idle-loaded,1*notebook;fault=fan-failure:0@600", "a fan that stands still"),
    ("east", "2xA100:2*training;fault=ecc-storm:1@1200",    "memory errors"),
    ("west", "4xA100:4*storage-bound;duty=0.22",                                "a job that waits for storage"),
    ("west", "4xA100:4*straggler",                                     "a job that waits for one of its GPUs"),
    ("west", "4xH100:4*training;fault=nvlink-down:0@1800",             "an NVLink down"),
    ("west", "4xH100:4*cpu-bound",                                     "a job that waits for one Python thread"),
    ("west", "2xA100:2*training;fault=power-brake:all@1200+1800;fault=pcie-degraded:0@600",
          "a power brake for half an hour, a narrow PCIe link"),
    ("west", "2xV100:1*training,1*free;fault=leaked-memory:1@600", "leaked memory"),
    ("west", "2xA100:2*training;churn=1500;fault=xid:1@1700",          "a program that faults once"),
)
# fmt: on


def nodes() -> tuple[Node, ...]:
    """Node names count up within a cluster, the sick ones among the well."""
    found: list[Node] = []
    for cluster, prefix, scheduler, column in (("east", "k8s", "kubernetes", 0), ("west", "hpc", "slurm", 1)):
        specs = [(row[column], "") for row in _WELL]
        specs += [(spec, planted) for where, spec, planted in _PLANTED if where == cluster]
        for index, (spec, planted) in enumerate(specs[i] for i in _mixed(len(specs))):
            name = f"{prefix}-{index + 1:02d}"
            options = f";node={name};seed={index + 50 * column};scheduler={scheduler}"
            found.append(Node(name, cluster, spec + options, planted))
    return tuple(found)


def _mixed(count: int) -> list[int]:
    """Every number below `count` once, far from its neighbours (7 shares no factor with 16)."""
    return [index * 7 % count for index in range(count)]
