"""What the README tells a stranger to type exists and is understood; the release's files are built by make release."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from exporter import __version__, commands
from exporter.config.option import options_of
from exporter.daemon.config import DaemonConfig
from tests.readme import README, line, lines
from tests.stack import program

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text())
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []


@pytest.mark.parametrize("typed", list(lines("gpu-exporter", "python3 dist/gpu-exporter")))
def test_every_command_is_understood(typed: str) -> None:
    words = shlex.split(typed)[1 if typed.startswith("gpu-exporter") else 2 :]
    command = words.pop(0) if words and not words[0].startswith("-") else "serve"
    commands.load(command, words, {})


def test_mail_in_the_routing_guide_is_one_that_the_rules_send() -> None:
    page = (ROOT / "docs/how-to/route-alerts.md").read_text()
    cases = yaml.safe_load((ROOT / "tests/contract/rules/expected.yaml").read_text())
    alert = cases["GpuOwnerWaste: two jobs that have an alert, the worst first, with its price"][0]["exp_annotations"]
    (mail,) = re.findall(r"```\nTo: .*?\nSubject: (.*?)```", page, re.DOTALL)
    subject, _, body = mail.partition("\n\n")

    assert subject == alert["summary"]
    dashboard = f"https://grafana.example.org{alert['dashboard']}"
    links = f"Runbook: {alert['runbook_url']} Dashboard: {dashboard} Report: {alert['report']} Since "
    assert " ".join(f"{alert['description']} {links}".split()) in " ".join(body.split())


MAKEFILES = (ROOT / "Makefile", *sorted((ROOT / ".ci/make").glob("*.mk")))


def test_make_finds_what_every_target_needs() -> None:
    targets = {name for file in MAKEFILES for name in re.findall(r"^([a-z0-9-]+):", file.read_text(), re.MULTILINE)}
    told = ("make", "--dry-run", "--keep-going", *sorted(targets))
    alone = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}
    done = subprocess.run(told, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_exists(page: str) -> None:
    known = {name for file in MAKEFILES for name in re.findall(r"^([a-z0-9-]+):", file.read_text(), re.MULTILINE)}
    asked = re.findall(r"(?:^|`|&& )make ([a-z0-9-]+(?: [a-z]+)*)", (ROOT / page).read_text(), re.MULTILINE)
    assert {name for names in asked for name in names.split()} <= known


def test_the_helm_line_sets_values_the_chart_has() -> None:
    values = yaml.safe_load((ROOT / "helm/gpu-exporter/values.yaml").read_text())
    for path in re.findall(r"--set ([\w.]+)=", line("helm install")):
        found = values
        for key in path.split("."):
            found = found[key]


def test_the_docker_line_gives_what_the_exporter_needs() -> None:
    parser = argparse.ArgumentParser()
    for flag, values in (("--gpus", ["all"]), ("--pid", ["host"]), ("-p", None), ("-d", None)):
        if flag == "-d":
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, choices=values, required=True)
    parser.add_argument("image")
    given = parser.parse_args(shlex.split(line("docker run"))[2:])
    port = next(option.default_value[1] for option in options_of(DaemonConfig) if option.name == "web.listen-address")

    assert given.p == f"{port}:{port}"
    assert given.image == f"REGISTRY/gpu-exporter:{__version__}"


def test_scrape_configuration_in_the_prometheus_guide_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/prometheus-grafana.md").read_text()
    block = re.search(r"```yaml\n(scrape_configs:.*?)```", page, re.DOTALL)
    assert block
    rules = str(ROOT / "deploy/prometheus/rules/*.yaml")
    file = tmp_path / "prometheus.yml"
    file.write_text(block[1].replace("/usr/share/gpu-exporter/rules/*.yaml", rules))
    done = subprocess.run([program("promtool"), "check", "config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "SUCCESS" in done.stdout


def test_the_files_the_readme_installs_are_those_a_release_builds() -> None:
    named = set(re.findall(r"dist/(\S+)", README)) - {"`,"}
    expected = {
        f"gpu-exporter_{__version__}_amd64.deb",
        f"gpu-exporter-{__version__}-1.x86_64.rpm",
        f"gpu-exporter-{__version__}.pyz",
    }
    assert expected <= named


def test_forms_and_settings_of_the_forge_are_well_formed() -> None:
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(form.read_text())
    assert "gpu-exporter capture" in (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text()
    json.loads((ROOT / ".github/renovate.json").read_text())
    for path in re.findall(r"^(/\S+)", (ROOT / ".github/CODEOWNERS").read_text(), re.MULTILINE):
        assert (ROOT / path.strip("/")).exists()


def test_the_changelog_goes_by_release_and_day() -> None:
    """What is not released yet is on top, and alone there."""
    headings = re.findall(r"^## (.*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(__version__)} \((unreleased|\d{{4}}-\d\d-\d\d)\)", headings[0])
    assert [each for each in headings[1:] if not re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", each)] == []
