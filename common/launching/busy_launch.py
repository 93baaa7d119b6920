"""Start one strategy with busy work in its loop, and else as `common.launching.launch` does.

To start it: `python -m common.launching.busy_launch STRATEGY --workers 4 --preset digits`.
"""

from common.errors import exit_with_one_line
from common.launching import launch


def main() -> None:
    """Run one strategy as the command line says, each of its processes with busy work."""
    launch.main(runner="common.measurement.busy")


if __name__ == "__main__":
    exit_with_one_line(main)
