"""Cases of the alerts about NVSwitches and network ports."""

from __future__ import annotations

from tests.contract.rules.case import NODE, Case, fires, silent


def _sxid(kind: str, last: str) -> dict[str, str]:
    labels = f'{NODE},switch="2",pci_bus_id="0000:c1:00.0",sxid="20034",class="{kind}",link="30"'
    return {f"gpu_nvswitch_sxid_last_timestamp_seconds{{{labels}}}": last}


def _switch(values: str, up: str = "1x720") -> dict[str, str]:
    labels = f'{NODE},fault="nvswitch",evidence="NVSwitch 2: SXID 20034",action="reset"'
    return {f"gpu_fault_timestamp_seconds{{{labels}}}": values, f"up{{{NODE}}}": up}


def _port(values: str, reason: str = "down") -> dict[str, str]:
    labels = f'{NODE},device="mlx5_3",port="1"'
    near = f'gpu_rdma_port_nearest_gpu_info{{{labels},gpu="3",uuid="GPU-3",path="PIX"}}'
    return {f'gpu_rdma_port_degraded{{{labels},reason="{reason}"}}': values, near: "1x90"}


CASES: tuple[Case, ...] = (
    fires("GpuNvswitchError", "a fatal one, ten minutes ago", "30m", _switch("_x20 1200x60")),
    fires("GpuNvswitchError", "nobody has mended it for ten hours", "600m", _switch("_x20 1200x700")),
    fires("GpuNvswitchError", "and the node falls silent", "180m", _switch("_x20 1200x9 stale", "1x29 0x700")),
    silent("GpuNvswitchError", "one the fabric survives", "30m", _sxid("non_fatal", "_x20 1200x60")),
    silent("GpuNvswitchError", "the fabric was reset", "40m", _switch("_x20 1200x9 stale")),
    fires("GpuNetworkPortDegraded", "down, and next to GPU 3", "30m", _port("0x10 1x60")),
    fires("GpuNetworkPortDegraded", "a narrower link", "30m", _port("1x60", "slow")),
    silent("GpuNetworkPortDegraded", "a moment of retraining", "13m 40m", _port("0x10 1x3 0x60")),
    silent("GpuNetworkPortDegraded", "as it should be", "30m", _port("0x60")),
)
