"""`disque completion bash|zsh|fish`: a script that lets the shell of the system complete `disque` and `disque-server`.

The scripts contain words that are made from the tables (commands, their subcommands and options, flags, settings). They
start no process when somebody presses Tab. Three things decide what may come next: up to the first word that is no
flag, the flags of `disque`; then the tools and commands; then the words of the command that was typed. Of values, only
names of files are completed.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from disque.cli.bench_options import WORKLOADS, new_parser
from disque.cli.shell_help import SHELL_COMMANDS, TOOLS, choices, groups, parse_usage
from disque.cli.shell_help import Part as UsagePart
from disque.cli.shell_options import FLAGS
from disque.core.commands import ROWS
from disque.core.config.settings import SETTINGS
from disque.gateway import options as gateway

_USAGE: Final = """\
Usage: disque completion bash|zsh|fish

Prints a script that lets this shell complete disque and disque-server. To have it in each new shell:

  bash   echo 'eval "$(disque completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(disque completion zsh)"' >> ~/.zshrc     (behind compinit)
  fish   disque completion fish > ~/.config/fish/completions/disque.fish
"""

#: Options of `disque worker`, which needs packages of its own to say them itself.
WORKER_FLAGS: Final = [
    *("--queues", "--strict", "--concurrency", "--processes", "--cpus", "--grace", "--reload", "--health"),
    *("--health-host", "--log-level", "--help"),
]
#: The same of what `disque.tasks.listing` shows.
LISTING_FLAGS: Final = {
    "dead": ["--count", "--delete", "--json", "--revive"],
    "jobs": ["--cancel", "--count", "--delete", "--json", "--revive", "--run-now", "--status"],
    "queues": ["--json", "--pause", "--resume"],
    "top": ["--interval", "--once"],
    "workers": ["--json"],
}


class Words(NamedTuple):
    """What may follow a command or tool: the word right behind it, if it is one of these, and any later ones.

    `later` maps the second word to what may follow it; "" stands for any other.
    """

    summary: str
    second: dict[str, str]
    later: dict[str, list[str]]


def keywords(parts: Iterable[UsagePart]) -> list[str]:
    """Give the literal words of a usage, those in brackets too, each once."""
    found: dict[str, None] = {}
    for part in parts:
        for word in part.words:
            found.update(dict.fromkeys(choices(word)))
        found.update(dict.fromkeys(keywords(part.inner)))
    return list(found)


def commands() -> dict[str, Words]:
    """Give what may follow each command of the server."""
    found = {}
    for row in ROWS:
        names = {name: summary for name, _usage, summary in row.subcommands}
        if "option" in row.usage.split():
            words = Words(row.summary, {}, {"": list(names)})
        elif names:
            later = {name: keywords(parse_usage(usage)) for name, usage, _summary in row.subcommands}
            words = Words(row.summary, names, later)
        else:
            words = Words(row.summary, {}, {"": keywords(parse_usage(row.usage))})
        found[row.name.decode()] = words
    return found


def tools() -> dict[str, Words]:
    """Give what may follow each tool, and `help`."""
    flags = [name for action in new_parser()._actions for name in action.option_strings]  # noqa: SLF001 - has no other
    ports = [name for action in gateway.new_parser()._actions for name in action.option_strings]  # noqa: SLF001 - see above
    topics = {f"@{group}": "" for group in groups({row.name: row for row in ROWS})}
    topics |= {row.name.decode(): row.summary for row in ROWS}
    return {
        "bench": Words(TOOLS["bench"], {}, {"": [*WORKLOADS, *flags]}),
        "check-aof": Words(TOOLS["check-aof"], {}, {"": ["--fix", "--yes", "--help"]}),
        "completion": Words(TOOLS["completion"], dict.fromkeys(SCRIPTS, ""), {}),
        "gateway": Words(TOOLS["gateway"], {}, {"": ports}),
        **{name: Words(TOOLS[name], {}, {"": flags}) for name, flags in LISTING_FLAGS.items()},
        "worker": Words(TOOLS["worker"], {}, {"": WORKER_FLAGS}),
        "help": Words(SHELL_COMMANDS["help"][1], topics, {}),
    }


def first_words() -> dict[str, Words]:
    """Give all words that may come first."""
    return {**commands(), **tools()}


def settings() -> list[str]:
    """Give the options of disque-server."""
    return [*(f"--{setting.name}" for setting in SETTINGS), "--version", "--help"]


def valued() -> list[str]:
    """Give the flags behind which a value stands."""
    return [name for flag in FLAGS if flag.value for name in flag.names]


def _cases(row: Callable[[str, str], str]) -> str:
    """Give a line for each first word, and for each first and second word, behind which something may come."""
    lines = []
    for first, words in first_words().items():
        if words.second:
            lines.append(row(f"{first}:", " ".join(words.second)))
        lines += [row(f"{first}:{second}".lower(), " ".join(later)) for second, later in words.later.items() if later]
    return "\n".join(lines)


def bash() -> str:
    """Give the script for bash, which needs nothing of the package bash-completion."""
    return _BASH.format(
        valued="|".join(valued()),
        flags=" ".join(name for flag in FLAGS for name in flag.names),
        first=" ".join(first_words()),
        alone="|".join(name for name, words in first_words().items() if not words.second),
        cases=_cases(lambda key, words: f'        {key}) words="{words}" ;;'),
        settings=" ".join(settings()),
    )


_BASH: Final = """\
# Completion of disque and disque-server for bash: eval "$(disque completion bash)"

_disque() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} first= second= words= at=1
    COMPREPLY=()
    while ((at < COMP_CWORD)); do
        case ${{COMP_WORDS[at]}} in
        {valued})
            ((at + 1 == COMP_CWORD)) && return
            ((at += 2))
            ;;
        -?*) ((at += 1)) ;;
        *)
            first=${{COMP_WORDS[at],,}}
            ((at + 1 < COMP_CWORD)) && second=${{COMP_WORDS[at + 1],,}}
            break
            ;;
        esac
    done
    if [[ -z $first ]]; then
        words="{first}"
        [[ $cur == -* ]] && words="{flags}"
    else
        case $first in
        {alone}) second= ;;
        esac
        case $first:$second in
{cases}
        esac
        [[ $cur == *[a-z]* && $cur != -* ]] && words=${{words,,}}
    fi
    [[ $cur == *[A-Z]* && $cur != -* ]] && words=${{words^^}}
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}

_disque_server() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}}
    COMPREPLY=()
    [[ $cur == -* ]] && COMPREPLY=($(compgen -W "{settings}" -- "$cur"))
}}

complete -o default -F _disque disque
complete -o default -F _disque_server disque-server
"""


def zsh() -> str:
    """Give the script for zsh."""
    return _ZSH.format(
        valued="|".join(valued()),
        flags=_zsh_list((name, flag.help) for flag in FLAGS for name in flag.names),
        first=_zsh_list((name, words.summary) for name, words in first_words().items()),
        alone="|".join(name for name, words in first_words().items() if not words.second),
        cases=_cases(lambda key, words: f"        {key}) found=({words}) ;;"),
        settings=" ".join(settings()),
    )


def _zsh_list(pairs: Iterable[tuple[str, str]]) -> str:
    return " ".join(_quoted(f"{name}:{text}" if text else name) for name, text in pairs)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_ZSH: Final = """\
#compdef disque disque-server
# Completion of disque and disque-server for zsh: eval "$(disque completion zsh)"

_disque() {{
    local first= second= at=2
    local -a found
    while ((at < CURRENT)); do
        case ${{words[at]}} in
        {valued})
            ((at + 1 == CURRENT)) && {{ _files; return }}
            ((at += 2))
            ;;
        -?*) ((at += 1)) ;;
        *)
            first=${{(L)words[at]}}
            ((at + 1 < CURRENT)) && second=${{(L)words[at + 1]}}
            break
            ;;
        esac
    done
    if [[ -z $first ]]; then
        if [[ ${{words[CURRENT]}} == -* ]]; then
            found=({flags})
        else
            found=({first})
        fi
        _describe disque found
        return
    fi
    case $first in
        {alone}) second= ;;
    esac
    case $first:$second in
{cases}
    esac
    compadd -M 'm:{{a-zA-Z}}={{A-Za-z}}' -a found || _files
}}

_disque_server() {{
    compadd -- {settings} || _files
}}

compdef _disque disque
compdef _disque_server disque-server
"""


def fish() -> str:
    """Give the script for fish."""
    lines = [_FISH]
    names = first_words()
    lines += [_fish_flag(flag.names, flag.value, flag.help) for flag in FLAGS]
    lines += [
        f"complete -c disque -f -n __disque_first -a {name} -d {_fish_quoted(words.summary)}"
        for name, words in names.items()
    ]
    for name, words in names.items():
        for second, summary in words.second.items():
            about = f" -d {_fish_quoted(summary)}" if summary else ""
            lines.append(f"complete -c disque -f -n '__disque_behind {name}' -a {_fish_quoted(second)}{about}")
        for second, later in words.later.items():
            if later:
                behind = f"{name} {second}".strip().lower()
                lines.append(f"complete -c disque -f -n '__disque_within {behind}' -a {_fish_quoted(' '.join(later))}")
    lines.append("complete -c disque -n '__disque_within check-aof' -F")
    lines += [
        f"complete -c disque-server -l {setting.name} -r -d {_fish_quoted(setting.help.partition('. ')[0])}"
        for setting in SETTINGS
    ]
    return "\n".join(lines) + "\n"


def _fish_flag(names: tuple[str, ...], value: str, text: str) -> str:
    spelled = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in names)
    return f"complete -c disque -n __disque_first {spelled}{' -r' if value else ''} -d {_fish_quoted(text)}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_FISH: Final = """\
# Completion of disque and disque-server for fish: disque completion fish > ~/.config/fish/completions/disque.fish

function __disque_words # the words before the cursor, from the first that is no flag
    set -l words (commandline -opc)
    set -l takes {valued}
    set -e words[1]
    while set -q words[1]; and string match -q -- '-?*' $words[1]
        if contains -- $words[1] $takes
            set -e words[1]
        end
        set -e words[1]
    end
    string lower -- $words
end

function __disque_first
    test (count (__disque_words)) -eq 0
end

function __disque_behind
    set -l words (__disque_words)
    test (count $words) -eq 1; and test "$words[1]" = $argv[1]
end

function __disque_within
    set -l words (__disque_words)
    set -l most (count $argv)
    test (count $words) -ge $most; and test "$words[1..$most]" = "$argv"
end
""".format(valued=" ".join(valued()))

SCRIPTS: Final[dict[str, Callable[[], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}


def main(argv: list[str]) -> int:
    """Print the script for one shell; gives the exit code."""
    if argv in (["-h"], ["--help"]):
        print(_USAGE, end="")
        return 0
    if len(argv) != 1 or argv[0] not in SCRIPTS:
        wrong = f"there is no script for {' '.join(argv)!r}" if argv else "for which shell?"
        print(f"disque completion: {wrong}\n{_USAGE}", end="", file=sys.stderr)
        return 2
    print(SCRIPTS[argv[0]](), end="")
    return 0
