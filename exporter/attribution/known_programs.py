"""Which programs of notebooks and servers the command lines of a workload are, and nothing by what stands beside them.

Programs carry such names in the paths of their data and their Python (`/home/jupyter/data`, `--model vllm-distilled`):
only the program itself counts, which is the name it was started by, its module (`-m`), or its script.
"""

from __future__ import annotations

from collections.abc import Sequence

_REPLICA = "ray::servereplica"
"""Ray Serve's: clients ask another program than this one."""
_PROGRAMS = (
    # begin of its name    class
    ("papermill", "batch"),
    ("jupyter-nbconvert", "batch"),
    ("ipykernel", "interactive"),
    ("jupyter", "interactive"),
    ("code-server", "interactive"),
    ("rstudio", "interactive"),
    ("rsession", "interactive"),
    ("vllm", "service"),
    ("tritonserver", "service"),
    ("sglang", "service"),
    ("text-generation", "service"),
    ("text_generation", "service"),
    ("trtllm-serve", "service"),
    ("lmdeploy", "service"),
    ("llama-server", "service"),
    ("ollama", "service"),
    ("torchserve", "service"),
    ("ts/model_service_worker", "service"),
    (_REPLICA, "service"),
)
"""In their order: a notebook that a program runs by itself has a kernel as well."""
_WORKER = "::"
"""In the titles that engines give their workers (`VLLM::EngineCore`), also where a user's script is what uses them."""
_INTERPRETERS = ("python", "pypy", "node")
_PACKAGES = "-packages/"
_WITH_VALUE = frozenset({"-w", "-x"})
"""Options of Python whose value may be the next word."""


def program_class(command_lines: Sequence[str]) -> str:
    """The class of work that the known ones among them do; empty where none is known. They are in lower case."""
    names = [name for line in command_lines for name in names_of(line)]
    return next((kind for begin, kind in _PROGRAMS if any(name.startswith(begin) for name in names)), "")


def names_of(command_line: str) -> Sequence[str]:
    """How a program is called: by its file, and of an interpreter by the module or the script that it runs."""
    words = command_line.split()
    if not words or (_WORKER in words[0] and not words[0].startswith(_REPLICA)):
        return ()
    file = _file(words[0])
    return (file, *_run_by(words[1:])) if file.startswith(_INTERPRETERS) else (file,)


def _run_by(words: Sequence[str]) -> Sequence[str]:
    """A script of the user's own (`vllm_offline.py`) is not the program it is named after."""
    options = iter(words)
    for word in options:
        if word == "-m":
            return (next(options, ""),)
        if word == "-c":
            return ()
        if word in _WITH_VALUE:
            next(options, "")
        elif not word.startswith("-"):
            return (_file(word),) if _PACKAGES in word or not word.endswith(".py") else ()
    return ()


def _file(path: str) -> str:
    """Without its folder, but for that within the packages of Python."""
    return path.rpartition(_PACKAGES)[2] if _PACKAGES in path else path.rpartition("/")[2]
