"""`python -m netdyno`, and the `netdyno` command."""

import sys

from netdyno.cli._app import main

if __name__ == "__main__":
    sys.exit(main())
