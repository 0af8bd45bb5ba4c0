# noqa: INP001 - not a package: the text of a pod's command
"""Test that `helm test` runs: the metrics come through the service, from a working sampler."""

import base64
import os
import ssl
import sys
import time
import urllib.request

request = urllib.request.Request(os.environ["URL"])  # noqa: S310 - the chart writes it
if "PASSWORD" in os.environ:
    pair = f"{os.environ['USERNAME']}:{os.environ['PASSWORD']}".encode()
    request.add_header("Authorization", "Basic " + base64.b64encode(pair).decode())
anyone = ssl.create_default_context()
anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE  # the monitors verify; this asks whether it serves

deadline = time.monotonic() + 60
while True:
    try:
        with urllib.request.urlopen(request, timeout=5, context=anyone) as answer:  # noqa: S310
            lines = answer.read().decode().splitlines()
        break
    except OSError as error:
        if time.monotonic() > deadline:
            sys.exit(f"{request.full_url}: {error}")
        time.sleep(2)  # nothing notifies a pod when a service has its endpoints

names = ("gpu_exporter_build_info{", "gpu_devices{", "gpu_exporter_driver")
shown = [line for line in lines if line.startswith(names)]
sys.stdout.write("\n".join(shown) + "\n")
if not any(line.startswith(names[0]) for line in shown):
    sys.exit(f"{request.full_url}: answered, but not with the exporter's metrics")
