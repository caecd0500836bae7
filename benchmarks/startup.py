"""How soon the commands that need no device answer.

    python benchmarks/startup.py

Each command is started a number of times as a process of its own, in turns with a bare Python; the quickest start of
each is what the machine can do when nobody is in the way. Exit status 1 when one takes more than 250 ms.
"""

import subprocess
import sys
import tempfile
import time

TURNS = 15
MOST_S = 0.250
RECORD = "schema/record.v1.golden.json"
COMMANDS = {
    "bare python": ["-c", "pass"],
    "netdyno --help": ["-m", "netdyno", "--help"],
    "netdyno show": ["-m", "netdyno", "show", RECORD],
    "netdyno runs": ["-m", "netdyno", "runs"],
}


def quickest() -> dict[str, float]:
    """The shortest wall time of each command, in seconds."""
    best = dict.fromkeys(COMMANDS, float("inf"))
    with tempfile.NamedTemporaryFile() as sink:
        for _ in range(TURNS):
            for name, words in COMMANDS.items():
                began = time.perf_counter()
                subprocess.run([sys.executable, *words], stdout=sink, stderr=sink, check=True)
                best[name] = min(best[name], time.perf_counter() - began)
    return best


def main() -> int:
    """Print the table; the answer is the exit status."""
    best = quickest()
    for name, seconds in best.items():
        print(f"{name:<16} {seconds * 1e3:6.0f} ms")
    return int(max(best.values()) > MOST_S)


if __name__ == "__main__":
    sys.exit(main())
