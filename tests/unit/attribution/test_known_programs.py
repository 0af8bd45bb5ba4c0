"""Notebooks and servers by how they are called, and programs that only look like them."""

from __future__ import annotations

import pytest

from exporter.attribution.work_class import program_class


@pytest.mark.parametrize(
    ("command_line", "told"),
    [
        ("/opt/conda/bin/python -m ipykernel_launcher -f /run/kernel.json", "interactive"),
        ("python3.11 -xfrozen_modules=off -x utf8 -m ipykernel_launcher -f x.json", "interactive"),
        ("python /opt/conda/lib/python3.11/site-packages/ipykernel_launcher.py -f x.json", "interactive"),
        ("/opt/conda/bin/python3.11 /opt/conda/bin/jupyter-lab --port 8888", "interactive"),
        ("/usr/lib/code-server/lib/node /usr/lib/code-server --bind-addr :8080", "interactive"),
        ("/usr/lib/rstudio-server/bin/rsession -u ada", "interactive"),
        ("/venv/bin/python /venv/bin/vllm serve meta/llama", "service"),
        ("python -u -m vllm.entrypoints.openai.api_server --model m", "service"),
        ("python3 /usr/lib/python3/dist-packages/vllm/entrypoints/openai/api_server.py", "service"),
        ("tritonserver --model-repository=/models", "service"),
        ("/opt/conda/bin/python3.10 /opt/conda/bin/text-generation-server serve m", "service"),
        ("/usr/bin/ollama runner --port 40000", "service"),
        ("/opt/jupyter/bin/python train.py", ""),
        ("/opt/jupyter/bin/python /home/jupyter/project/train.py --out /data/jupyter", ""),
        ("python train.py --model vllm-distilled --data /data/ollama/corpus", ""),
        ("python3 /home/ada/sglang/train.py", ""),
        ("python vllm_offline.py", ""),
        ("vllm::worker_tp3", ""),
        ("ray::rayworkerwrapper.execute_method", ""),
        ("ray::servereplica:default:model", "service"),
        ("python -c from multiprocessing.spawn import spawn_main --jupyter", ""),
        ("python", ""),
        ("", ""),
    ],
)
def test_program_counts_and_not_what_stands_beside_it(command_line: str, told: str) -> None:
    assert program_class((command_line,)) == told


def test_notebook_that_a_program_runs_by_itself_is_batch_work() -> None:
    kernel = "python -m ipykernel_launcher -f x.json"

    assert program_class((kernel, "/opt/conda/bin/python /opt/conda/bin/papermill in.ipynb out.ipynb")) == "batch"
    assert program_class((kernel, "python /opt/conda/bin/jupyter-nbconvert --execute in.ipynb")) == "batch"
