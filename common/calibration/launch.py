"""Start one strategy with busy work in its loop, and else as `common.launch` does.

To start it: `python -m common.calibration.launch STRATEGY --workers 4 --preset digits`.
"""

from common import launch
from common.errors import exit_with_one_line


def main() -> None:
    """Run one strategy as the command line says, each of its processes with busy work."""
    launch.main(runner="common.calibration.busy")


if __name__ == "__main__":
    exit_with_one_line(main)
