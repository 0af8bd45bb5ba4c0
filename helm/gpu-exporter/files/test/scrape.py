# noqa: INP001 - not a package: the text of a pod's command
"""Test that `helm test` runs: the metrics come through the service, and Prometheus has an exporter as its target."""

import base64
import json
import os
import ssl
import sys
import time
import urllib.parse
import urllib.request

request = urllib.request.Request(os.environ["URL"])  # noqa: S310 - the chart writes it
if "PASSWORD" in os.environ:
    pair = f"{os.environ['USERNAME']}:{os.environ['PASSWORD']}".encode()
    request.add_header("Authorization", "Basic " + base64.b64encode(pair).decode())
anyone = ssl.create_default_context()
anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE  # the monitors verify; this asks whether it serves


def fetch(asked: str | urllib.request.Request, deadline: float) -> str:
    """Return the body of an answer. Raise OSError after the deadline."""
    while True:
        try:
            with urllib.request.urlopen(asked, timeout=5, context=anyone) as answer:  # noqa: S310
                text: str = answer.read().decode()
                return text
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(2)  # nothing notifies a pod when a service has its endpoints


try:
    lines = fetch(request, time.monotonic() + 60).splitlines()
except OSError as error:
    sys.exit(f"{request.full_url}: {error}")
names = ("gpu_exporter_build_info{", "gpu_devices{", "gpu_exporter_driver")
shown = [line for line in lines if line.startswith(names)]
sys.stdout.write("\n".join(shown) + "\n")
if not any(line.startswith(names[0]) for line in shown):
    sys.exit(f"{request.full_url}: answered, but not with the exporter's metrics")

prometheus, pool = os.environ.get("PROMETHEUS"), os.environ.get("POOL", "")
deadline, problem = time.monotonic() + 120, ""
while prometheus:
    url = f"{prometheus}/api/v1/targets?state=active&scrapePool={urllib.parse.quote(pool, safe='')}"
    try:
        targets = json.loads(fetch(url, deadline))["data"]["activeTargets"]
    except (OSError, ValueError, LookupError) as error:
        sys.exit(f"{url}: {error}. Set test.prometheusUrl to another URL, or to '' to leave this out")
    targets = [target for target in targets if target["scrapePool"] == pool]
    if any(target["health"] == "up" for target in targets):
        sys.stdout.write(f"{prometheus} scrapes {pool}\n")
        break
    if time.monotonic() > deadline:
        problem = targets[0].get("lastError") if targets else "the notes of the install name the label that is missing"
        sys.exit(f"{prometheus}: no target of {pool} after two minutes is up: {problem}")
    time.sleep(2)
