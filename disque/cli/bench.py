"""`disque bench`: load a server, measure it, and report what the measuring itself cost.

Each file of it has one concept: options, target (the server), lane (the requests of a connection), mixed (the account
of delivered jobs), load (the engine), station and crew (one process, or several), tally and histogram, run, report.
"""

import sys
from typing import Final

from disque.cli.bench_options import Options, UsageError, parse_options
from disque.cli.bench_report import ProgressBar, print_report
from disque.cli.bench_resp import BenchError
from disque.cli.bench_run import Run

_OK: Final = 0
_FAILED: Final = 1
_USAGE: Final = 2
_INTERRUPTED: Final = 130


def main(argv: list[str]) -> int:
    """Run what `argv` (without the program's name) asks for and print figures on standard output.

    Gives 0; 1 when the server refused, failed, or lost something; 2 for arguments that make no sense; 130 after Ctrl-C,
    with what was measured so far.
    """
    try:
        options = parse_options(argv)
    except UsageError as error:
        print(f"disque bench: {error} (see disque bench --help)", file=sys.stderr)
        return _USAGE
    except SystemExit:
        return _OK
    return _run(options)


def _run(options: Options) -> int:
    bar = ProgressBar(sys.stderr, options.progress)
    run = Run(options, bar)
    code, complaint = _OK, ""
    try:
        run.run()
    except BenchError as error:
        code, complaint = _FAILED, str(error)
    except KeyboardInterrupt:
        code, complaint = _INTERRUPTED, "interrupted; what was not cleaned up is in queues that begin with 'bench-'"
    bar.clear()
    measured = [figures for figures in run.figures if figures.tally.operations or figures.tally.errors]
    if measured or code == _OK:
        print_report(measured, options)
    if complaint:
        print(f"disque bench: {complaint}", file=sys.stderr)
    failed = any(figures.tally.failed for figures in measured)
    return code or (_FAILED if failed else _OK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
