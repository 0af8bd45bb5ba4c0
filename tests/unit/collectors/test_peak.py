"""Peak FLOPs by the names NVML gives to products."""

from __future__ import annotations

import pytest

from exporter.collectors.info import peak_flops
from exporter.tools.simulator.models import MODELS


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H800 PCIe", 756),
        ("NVIDIA H200", 989.4),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("Tesla V100-PCIE-16GB", 112),
        ("Tesla V100-SXM2-32GB", 125),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
        ("NVIDIA GB200", 2500),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 438.9),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 503.8),
    ],
)
def test_product(name: str, teraflops: float) -> None:
    found = peak_flops(name)

    assert found is not None
    assert found / 1e12 == pytest.approx(teraflops)


@pytest.mark.parametrize(
    "name",
    [
        *("", "NVIDIA A1000 Laptop GPU", "NVIDIA T400 4GB", "NVIDIA H2000"),
        # named after one that is faster, or a part of it
        *("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "Tesla V100-FHHL-16GB"),
        *("NVIDIA A100-40C", "GRID A100-1-5C", "NVIDIA A40-12Q", "GRID V100-8C", "NVIDIA L40S-48Q", "GRID T4-4C"),
        *("NVIDIA A100-1-5CME", "NVIDIA H100-1-10CME"),
    ],
)
def test_product_that_is_not_known_has_none(name: str) -> None:
    assert peak_flops(name) is None


def test_every_simulated_model_has_one() -> None:
    assert all(peak_flops(model.name) for model in MODELS.values())
