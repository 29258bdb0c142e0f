"""`python -m tests.simulation`: see `runner`."""

import sys

from tests.simulation.runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
