"""Shell completion, made from the option tables: `gpu-exporter completion bash|zsh|fish`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from exporter.commands import COMMANDS, options
from exporter.config.kinds import Choice, Subset
from exporter.config.option import ConfigError, Option

_FILES = frozenset({"FILE", "DIR", "PATH", "COMMAND"})


def commands() -> Mapping[str, Sequence[Option]]:
    """Return the options of each command."""
    return {name: options(name) for name in COMMANDS}


def _option_flags(options: Sequence[Option]) -> Sequence[str]:
    pairs = ((f"--{o.name}", f"--no-{o.name}") if o.switch else (f"--{o.name}",) for o in options)
    return ["--help", "--help-all", "--config.file", *(flag for pair in pairs for flag in pair)]


def _option_values(option: Option) -> Sequence[str]:
    """The words it takes, where they are few."""
    return option.parse.known if isinstance(option.parse, Choice | Subset) else ()


def bash() -> str:
    flags = "\n".join(
        f'        {name}) flags="{" ".join(_option_flags(found))}" ;;' for name, found in commands().items()
    )
    every = [(name, option) for name, found in commands().items() for option in found if not option.switch]
    words = "\n".join(
        f"        {name}--{option.name}) _gpu_exporter_words '{' '.join(_option_values(option))}'; return ;;"
        for name, option in every
        if _option_values(option)
    )
    files = "|".join(sorted({f"--{option.name}" for _, option in every if option.metavar in _FILES}))
    others = "|".join(sorted({f"--{option.name}" for _, option in every if option.metavar not in _FILES}))
    return f"""\
# bash completion of gpu-exporter; made by `gpu-exporter completion bash`
_gpu_exporter_words() {{
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word")
}}
_gpu_exporter_files() {{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
}}
_gpu_exporter() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=serve flags
    # bash cuts --option=value at the sign
    if [[ $word == = ]]; then
        word=''
    elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    case ${{COMP_WORDS[1]}} in -* | '') ;; *) command=${{COMP_WORDS[1]}} ;; esac
    case $command in
{flags}
        *) flags='' ;;
    esac
    COMPREPLY=()
    case $command$before in
{words}
        completioncompletion) _gpu_exporter_words '{" ".join(SHELLS)}'; return ;;
    esac
    case $before in
        --config.file|{files}) _gpu_exporter_files; return ;;
        {others}) return ;;
    esac
    if [[ $COMP_CWORD == 1 && $word != -* ]]; then
        _gpu_exporter_words '{" ".join(COMMANDS)}'
    elif [[ $command == capture && $word != -* ]]; then
        _gpu_exporter_files
    else
        _gpu_exporter_words "$flags"
    fi
}}
complete -F _gpu_exporter gpu-exporter
"""


def zsh() -> str:
    names = "\n".join(f"        '{name}:{_escape_shell(command.about)}'" for name, command in COMMANDS.items())
    cases = "\n".join(
        f"        {name}) _arguments {' '.join(_zsh_flag(o) for o in found)} '*: :_files' ;;"
        for name, found in commands().items()
        if found
    )
    return f"""\
#compdef gpu-exporter
# zsh completion of gpu-exporter; made by `gpu-exporter completion zsh`
_gpu_exporter() {{
    local -a commands
    commands=(
{names}
    )
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _describe command commands
        return
    fi
    local command=serve
    [[ $words[2] == -* ]] || command=$words[2]
    case $command in
{cases}
        completion) _values shell bash zsh fish ;;
    esac
}}
_gpu_exporter "$@"
"""


def _escape_shell(text: str) -> str:
    """Return the text without what a shell or _arguments would read as its own."""
    return "".join(" " if char in "'\"`$\\[]:" else char for char in text)


def _zsh_flag(option: Option) -> str:
    about = _escape_shell(option.help)
    if option.switch:
        return f"'--{option.name}[{about}]' '--no-{option.name}[not - {about}]'"
    action = "_files" if option.metavar in _FILES else " "
    if _option_values(option):
        action = f"({' '.join(_option_values(option))})"
    return f"'--{option.name}=[{about}]:{option.metavar.lower()}:{action}'"


def fish() -> str:
    lines = ["# fish completion of gpu-exporter; made by `gpu-exporter completion fish`", "complete -c gpu-exporter -f"]
    unset = f"not __fish_seen_subcommand_from {' '.join(COMMANDS)}"
    lines += [
        f"complete -c gpu-exporter -n '{unset}' -a {name} -d '{_escape_shell(command.about)}'"
        for name, command in COMMANDS.items()
    ]
    for name, found in commands().items():
        where = unset if name == "serve" else f"__fish_seen_subcommand_from {name}"
        lines += [_fish_flag(option, where) for option in found]
    lines.append("complete -c gpu-exporter -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'")
    return "\n".join(lines) + "\n"


def _fish_flag(option: Option, where: str) -> str:
    start = f"complete -c gpu-exporter -n '{where}' -l '{option.name}' -d '{_escape_shell(option.help)}'"
    if option.switch:
        return start
    if _option_values(option):
        return f"{start} -x -a '{' '.join(_option_values(option))}'"
    return f"{start} -r -F" if option.metavar in _FILES else f"{start} -x"


SHELLS: Mapping[str, Callable[[], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


_HELP = """\
usage: gpu-exporter completion bash|zsh|fish

Print what lets a shell complete commands, options and formats.

examples:
  gpu-exporter completion bash > /etc/bash_completion.d/gpu-exporter
  gpu-exporter completion zsh > "${fpath[1]}/_gpu-exporter"
  gpu-exporter completion fish > ~/.config/fish/completions/gpu-exporter.fish
"""


def run(arguments: Sequence[str]) -> int:
    """Status 0."""
    if list(arguments) in (["--help"], ["-h"]):
        sys.stdout.write(_HELP)
        return 0
    if len(arguments) != 1 or arguments[0] not in SHELLS:
        raise ConfigError(f"completion: expected one of {', '.join(SHELLS)}, got {' '.join(arguments) or 'nothing'}")
    sys.stdout.write(SHELLS[arguments[0]]())
    return 0
