"""Environment variables that look like options: what is known, what Kubernetes sets, what is a typing error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.commands import every_option
from exporter.config.load import refuse, unknown
from exporter.config.option import ConfigError

ROOT = Path(__file__).resolve().parents[3]
KNOWN = {option.environment for option in every_option().values()}


@pytest.mark.parametrize(
    "name",
    [
        "GPU_EXPORTER_SERVICE_HOST",
        "GPU_EXPORTER_SERVICE_PORT",
        "GPU_EXPORTER_SERVICE_PORT_METRICS",
        "GPU_EXPORTER_PORT",
        "GPU_EXPORTER_PORT_9836_TCP_ADDR",
        "GPU_EXPORTER_HEADLESS_SERVICE_HOST",
        "GPU_EXPORTER_CONFIG_FILE",
        "GPU_EXPORTER_EXPECT_GPUS",
        "PATH",
    ],
)
def test_a_known_variable_is_taken(name: str) -> None:
    assert unknown({name: "x"}, KNOWN) == []


@pytest.mark.parametrize("name", ["GPU_EXPORTER_WEB_LISTEN_ADRESS", "GPU_EXPORTER_COLLECTOR_NVLINK", "GPU_EXPORTER_"])
def test_a_typing_error_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        refuse({name: "x"}, KNOWN)


def test_every_variable_that_the_packages_and_the_kit_set_is_known() -> None:
    files = [path for folder in ("deploy", "helm", "docs") for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts = [path.read_text(errors="ignore") for path in files if path.suffix not in {".json", ".png", ".pyc"}]
    used = {name for text in texts for name in re.findall(r"GPU_EXPORTER_[A-Z_]*[A-Z]", text)}
    assert len(used) > 10
    assert unknown(dict.fromkeys(used, ""), KNOWN) == []
