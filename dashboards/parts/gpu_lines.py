"""The lines over time of one GPU: load, heat, power, clocks."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import units

from dashboards.parts import panel, style
from dashboards.parts.query import DEVICE, answering, gpu_busy, over_time, rate, some

NOT_REPORTED = "not reported by this GPU"


def load(made: build.Dashboard) -> None:
    def active(name: str) -> str:
        return answering(rate(f"gpu_{name}_seconds_total{{{DEVICE}}}"), DEVICE)

    made.with_panel(
        panel.lines(
            "Busy and SM activity",
            "Busy: a kernel ran. SM active: multiprocessors that had work. Occupancy: their warps in use. Busy high and SM low: small kernels.",
            [
                over_time(gpu_busy(DEVICE, "gpu"), "busy"),
                over_time(active("sm_active"), "SM active"),
                over_time(active("sm_occupancy"), "SM occupancy"),
            ],
            units.PercentUnit,
            ceiling=1,
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.lines(
            "Pipelines",
            "Fraction of time each pipeline was active. Matrix work without tensor activity wants a lower precision.",
            [
                over_time(
                    active(f"{name}_active"),
                    name.upper().replace("TENSOR", "tensor").replace("DRAM", "DRAM").replace("INTEGER", "integer"),
                )
                for name in ("tensor", "dram", "fp64", "fp32", "fp16", "integer")
            ],
            units.PercentUnit,
            empty="This GPU is older than Hopper and does not report its pipelines",
        )
    )
    made.with_panel(
        panel.lines(
            "Memory",
            "Used, and what it has. Unattributed: in use on an idle GPU, and no process or workload has it.",
            [
                over_time(f"gpu_memory_used_bytes{{{DEVICE}}}", "used"),
                over_time(f"gpu_memory_reserved_bytes{{{DEVICE}}}", "reserved by the driver"),
                over_time(f"gpu_memory_unattributed_bytes{{{DEVICE}}}", "unattributed"),
                over_time(f"gpu_memory_total_bytes{{{DEVICE}}}", "total"),
            ],
            units.BytesIEC,
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.lines(
            "Traffic",
            "Bytes per second over PCIe and NVLink.",
            [
                over_time(answering(rate(f"gpu_pcie_bytes_total{{{DEVICE}}}"), DEVICE), "PCIe {{direction}}"),
                over_time(answering(rate(f"gpu_nvlink_bytes_total{{{DEVICE}}}"), DEVICE), "NVLink {{direction}}"),
            ],
            units.BytesPerSecondSI,
            empty="This GPU does not report link traffic",
        )
    )
    made.with_panel(
        panel.lines(
            "Video engines",
            "Fraction of time the encoder, decoder, JPEG and optical flow engines were busy.",
            [
                over_time(f"gpu_{name}_utilization_ratio{{{DEVICE}}}", name)
                for name in ("encoder", "decoder", "jpeg", "ofa")
            ],
            units.PercentUnit,
            size=(24, 5),
            ceiling=1,
            empty="This GPU does not report video engines",
        )
    )


def heat(made: build.Dashboard) -> None:
    made.with_panel(
        panel.lines(
            "Temperature",
            "Chip and memory, and the thresholds at which the GPU slows down or shuts off.",
            [
                over_time(f"gpu_temperature_celsius{{{DEVICE}}}", "{{sensor}}"),
                over_time(f"gpu_temperature_threshold_celsius{{{DEVICE}}}", "limit: {{threshold}}"),
            ],
            units.Celsius,
            size=(8, 8),
            floor=20,
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.lines(
            "Power",
            "Drawn, and the limit in force.",
            [
                over_time(f"gpu_power_watts{{{DEVICE}}}", "drawn"),
                over_time(f"gpu_power_limit_watts{{{DEVICE}}}", "limit"),
                over_time(f"gpu_power_default_limit_watts{{{DEVICE}}}", "default limit"),
            ],
            units.Watt,
            size=(8, 8),
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.lines(
            "Clocks",
            "Now and at most. Far under the most while busy: look at the reasons above.",
            [
                over_time(f"gpu_clock_hertz{{{DEVICE}}}", "{{domain}}"),
                over_time(f"gpu_clock_max_hertz{{{DEVICE}}}", "most: {{domain}}"),
            ],
            units.Hertz,
            size=(8, 8),
            empty=NOT_REPORTED,
        )
    )
    made.with_panel(
        panel.name_series(
            panel.lines(
                "Clock throttling",
                "Fraction of time the clocks were lowered, by reason, and what the power cap took of it. That is no waste.",
                [
                    over_time(
                        some(f"sum by (reason) ({rate(f'gpu_throttled_seconds_total{{{DEVICE}}}')})"), "{{reason}}"
                    ),
                    over_time(
                        some(rate(f"gpu_power_cap_slowdown_seconds_total{{{DEVICE}}}")), "taken by the power cap"
                    ),
                ],
                units.PercentUnit,
                size=(12, 7),
                ceiling=1,
                empty="Its clocks were not throttled, or this GPU does not report it",
            ),
            style.REASONS,
        )
    )
    made.with_panel(
        panel.lines(
            "Fans",
            "Speed, as a fraction of the maximum. Servers cool by their own fans and have none here.",
            over_time(f"gpu_fan_speed_ratio{{{DEVICE}}}", "fan {{fan}}"),
            units.PercentUnit,
            size=(12, 7),
            ceiling=1,
            empty="This GPU has no fans of its own",
        )
    )
