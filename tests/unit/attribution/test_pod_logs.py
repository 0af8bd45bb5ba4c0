"""Pod names from the kubelet's log directories."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.kubernetes.source import logged_pods, parse_log_names

UID = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"
STATIC = "8f6a44fc62e8cb075753c843896568ca"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"ml_train-0_{UID}", {UID: ("ml", "train-0")}),
        (f"kube-system_etcd-n1_{STATIC}", {STATIC: ("kube-system", "etcd-n1")}),
        ("train-0", {}),
        (f"ml__{UID}", {}),
        (f"a_b_c_{UID}", {}),
        (f"ml_tr\udcffain_{UID}", {UID: ("ml", r"tr\udcffain")}),  # a byte that is no UTF-8
    ],
)
def test_directory_names(name: str, expected: dict[str, tuple[str, str]]) -> None:
    assert parse_log_names([name]) == expected


def test_missing_directory_names_nobody(tmp_path: Path) -> None:
    assert logged_pods(tmp_path / "gone") == {}


@given(st.lists(st.text()))
def test_any_names_are_survived(names: list[str]) -> None:
    parse_log_names(names)
