"""Make the captures of published records anew: `python tests/captures/make_published.py`. Then read the diff.

Somebody showed in public what `nvidia-smi -q` said of a real GPU; the values are facts, each with its source and the
licence it stands under there. The text of an issue has none of its own: named is that of the repository it is in.
What the record does not say, the capture's GPU does not have. UUIDs, serial numbers and addresses are not taken over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exporter import __version__
from exporter.tools.capture.record import write
from exporter.tools.capture.replay import BY_FIELD, FORMAT, VERSION

MIB = 1 << 20
_TELEGRAF = "github.com/influxdata/telegraf plugins/inputs/nvidia_smi/testdata/"

Clocks = tuple[int, int, int, int]
"""MHz of graphics, SM, memory and video."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One GPU as a record has it, in the units of nvidia-smi: MiB, W, MHz, °C. None is "N/A", or not in the record."""

    source: str
    licence: str
    driver: str
    model: str
    architecture: int | None = None
    """NVML's number."""
    vbios: str = ""
    persistence: int | None = None
    mig: tuple[int, int] | None = None
    ecc: tuple[int, int] | None = None
    memory: tuple[int, int, int] | None = None
    """Total, reserved and used. What is free is the rest: nvidia-smi rounds each to MiB."""
    bar1: tuple[int, int] | None = None
    """Total and used."""
    utilization: tuple[int, int] | None = None
    power: tuple[float, float, float, float, float]
    """Drawn, limit in force, default, lowest and highest limit."""
    clocks: Clocks
    maximum: Clocks
    state: int | None = None
    temperature: int
    memory_temperature: int | None = None
    margin: int | None = None
    margins: tuple[int, int, int] | None = None
    """T.Limit of shutdown, slowdown and highest operating temperature."""
    thresholds: tuple[int, int, int] | None = None
    """The same three, where they are temperatures."""
    fan: int | None = None
    link: tuple[int, int, int, int] | None = None
    """PCIe generation now and at most, width now and at most."""
    reasons: int | None = None
    remapped: tuple[int, int, int, int] | None = None
    banks: int | None = None
    fields: Mapping[int, int] = field(default_factory=dict[int, int])
    """Other values by NVML's field."""
    recovery: int | None = None

    def calls(self) -> Iterator[tuple[str, Any]]:
        """Function and arguments, as captures have them, with the answer."""
        yield from _known(
            {
                '["nvmlDeviceGetName"]': self.model,
                '["nvmlDeviceGetSerial"]': "0000000000000",
                '["nvmlDeviceGetArchitecture"]': self.architecture,
                '["nvmlDeviceGetVbiosVersion"]': self.vbios or None,
                '["nvmlDeviceGetPersistenceMode"]': self.persistence,
                '["nvmlDeviceGetMigMode"]': self.mig,
                '["nvmlDeviceGetEccMode"]': self.ecc,
                '["nvmlDeviceGetPerformanceState"]': self.state,
                '["nvmlDeviceGetMarginTemperature"]': self.margin,
                '["nvmlDeviceGetCurrentClocksEventReasons"]': self.reasons,
                '["nvmlDeviceGetRemappedRows"]': self.remapped,
                '["nvmlDeviceGetFieldValues",82,0]': self.memory_temperature,
                '["nvmlDeviceGetFieldValues",230,0]': self.recovery,
                '["nvmlDeviceGetNumFans"]': None if self.fan is None else 1,
                '["nvmlDeviceGetFanSpeed_v2",0]': self.fan,
                '["nvmlDeviceGetTemperatureV",0]': {"record": {"sensorType": 0, "temperature": self.temperature}},
                **{f'["nvmlDeviceGetFieldValues",{number},0]': each for number, each in self.fields.items()},
                **{f'["nvmlDeviceGetClockInfo",{place}]': each for place, each in enumerate(self.clocks)},
                **{f'["nvmlDeviceGetMaxClockInfo",{place}]': each for place, each in enumerate(self.maximum)},
            }
        )
        yield from self._power()
        yield from self._structures()

    def _power(self) -> Iterator[tuple[str, Any]]:
        drawn, enforced, default, lowest, highest = (round(each * 1000) for each in self.power)
        yield '["nvmlDeviceGetPowerUsage"]', drawn
        yield '["nvmlDeviceGetEnforcedPowerLimit"]', enforced
        yield '["nvmlDeviceGetPowerManagementDefaultLimit"]', default
        yield '["nvmlDeviceGetPowerManagementLimitConstraints"]', (lowest, highest)

    def _structures(self) -> Iterator[tuple[str, Any]]:
        if self.memory:
            total, reserved, used = (each * MIB for each in self.memory)
            free = total - reserved - used
            record = {"total": total, "reserved": reserved, "free": free, "used": used}
            yield '["nvmlDeviceGetMemoryInfo"]', {"record": record}
        if self.bar1:
            total, used = (each * MIB for each in self.bar1)
            yield (
                '["nvmlDeviceGetBAR1MemoryInfo"]',
                {"record": {"bar1Total": total, "bar1Free": total - used, "bar1Used": used}},
            )
        if self.utilization:
            record = dict(zip(("gpu", "memory"), self.utilization, strict=True))
            yield '["nvmlDeviceGetUtilizationRates"]', {"record": record}
        if self.banks is not None:
            histogram = {"max": self.banks, "high": 0, "partial": 0, "low": 0, "none": 0}
            yield '["nvmlDeviceGetRowRemapperHistogram"]', {"record": histogram}
        if self.link:
            names = ("CurrPcieLinkGeneration", "MaxPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkWidth")
            yield from ((f'["nvmlDeviceGet{name}"]', each) for name, each in zip(names, self.link, strict=True))
        for place, each in enumerate(self.margins or ()):
            yield f'["nvmlDeviceGetFieldValues",{(193, 194, 196)[place]},0]', each
        for place, each in enumerate(self.thresholds or ()):
            yield f'["nvmlDeviceGetTemperatureThreshold",{(0, 1, 3)[place]}]', each


def _known(answers: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((call, answer) for call, answer in answers.items() if answer is not None)


RECORDS = (
    Published(
        source="github.com/NVIDIA/nvidia-docker issue 1076", licence="BSD-3-Clause",
        driver="", model="Tesla V100-SXM2-32GB", architecture=5,
        power=(57.44, 300, 300, 150, 300), clocks=(1290, 1290, 877, 1155), maximum=(1530, 1530, 877, 1372),
        temperature=32, memory_temperature=29, thresholds=(90, 87, 83),
    ),
    Published(
        source=_TELEGRAF + "tesla-t4.xml", licence="MIT",
        driver="515.105.01", model="Tesla T4", architecture=6, vbios="90.04.84.00.06", persistence=0, ecc=(1, 1),
        memory=(15360, 388, 1032), bar1=(256, 5), utilization=(0, 0), power=(26.78, 70, 70, 60, 70),
        clocks=(585, 585, 5000, 810), maximum=(1590, 1590, 5001, 1470), state=0,
        temperature=40, thresholds=(96, 93, 85), link=(3, 3, 8, 16), reasons=0,
        fields={29: 0, 30: 0, 31: 0},
    ),
    Published(
        source=_TELEGRAF + "a100-sxm4-v12.xml", licence="MIT",
        driver="535.54.03", model="NVIDIA A100-SXM4-80GB", architecture=7, vbios="92.00.36.00.02", persistence=0,
        mig=(1, 1), ecc=(1, 1), memory=(81920, 869, 50), bar1=(131072, 1), power=(67.03, 500, 500, 100, 500),
        clocks=(1275, 1275, 1593, 1275), maximum=(1410, 1410, 1593, 1290), state=0,
        temperature=27, memory_temperature=44, thresholds=(92, 89, 85), link=(4, 4, 16, 16), reasons=0,
    ),
    Published(
        source=_TELEGRAF + "rtx-4000-sff-ada-v13.xml", licence="MIT",
        driver="595.84", model="NVIDIA RTX 4000 SFF Ada Generation", architecture=8, vbios="95.04.53.00.01",
        persistence=1, ecc=(0, 0), memory=(20475, 460, 3534), bar1=(32768, 3732), utilization=(0, 37),
        power=(8.81, 70, 70, 30, 70), clocks=(210, 210, 405, 765), maximum=(3105, 3105, 7001, 2415), state=8,
        temperature=38, margin=49, margins=(-7, -2, 0), fan=30, link=(1, 4, 16, 16), reasons=1,
        remapped=(0, 0, 0, 0), banks=96, recovery=0,
    ),
    Published(
        source="github.com/utkuozdemir/nvidia_gpu_exporter internal/captures/"
        "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt", licence="MIT",
        driver="590.48.01", model="NVIDIA H100 80GB HBM3", architecture=9, vbios="96.00.A5.00.01", persistence=1,
        mig=(0, 0), ecc=(1, 1), memory=(81559, 479, 0), bar1=(131072, 1), utilization=(0, 0),
        power=(69.62, 700, 700, 200, 700), clocks=(345, 345, 2619, 765), maximum=(1980, 1980, 2619, 1545), state=0,
        temperature=41, memory_temperature=48, margin=46, margins=(-8, -2, 0), link=(5, 5, 16, 16), reasons=1,
        remapped=(0, 0, 0, 0), banks=2560, recovery=0,
    ),
    Published(
        source=_TELEGRAF + "pro-6000-maxq-blackwell-v13.xml", licence="MIT",
        driver="590.44.01", model="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", architecture=10,
        vbios="98.02.6A.00.03", persistence=1, ecc=(0, 0), memory=(97887, 637, 65720), bar1=(131072, 65721),
        utilization=(0, 0), power=(3.97, 300, 300, 250, 325), clocks=(180, 180, 405, 600),
        maximum=(3090, 3090, 14001, 3090), state=8, temperature=24, margin=68, margins=(-5, -2, 0), fan=30,
        link=(1, 4, 16, 16), reasons=0, remapped=(0, 0, 0, 0), banks=512, recovery=0,
    ),
)  # fmt: skip


def capture(found: Published) -> Mapping[str, Any]:
    answers = {f'["{BY_FIELD}"]': None, **dict(found.calls())}
    device = {
        "index": 0,
        "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "pci_bus_id": "0000:01:00.0",
        "minor": 0,
        "parent_uuid": "",
        "mig": None,
        "present": [[0.0, True]],
        "calls": {call: [[0.0, answer]] for call, answer in answers.items()},
        "instances": [],
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        "exporter": __version__,
        "simulated": False,
        "source": f"{found.source} ({found.licence})",
        "start": 1_700_000_000.0,
        "system": {'["nvmlSystemGetDriverVersion"]': [[0.0, found.driver]]} if found.driver else {},
        "devices": [device],
        "events": [],
    }


def main() -> None:
    for found in RECORDS:
        model = found.model.removeprefix("NVIDIA ").removeprefix("Tesla ").replace(" ", "-")
        write(capture(found), Path(__file__).parent / f"published__{model}__{found.driver or 'unknown'}__smi.json")


if __name__ == "__main__":
    main()
