"""Run a script in which torch's all-reduce gives rank 1 one element that is wrong.

To start it: `python -m tests.pytorch_impl.wrong_sum SCRIPT OPTIONS`.
"""

import runpy
import sys
from pathlib import Path
from unittest.mock import patch

import torch.distributed as dist


def main():
    """Run the script that the first argument names, as if it had been started itself."""
    del sys.argv[0]
    with patch.object(dist, "all_reduce", off_by_one(dist.all_reduce)):
        runpy.run_path(str(Path(sys.argv[0]).resolve()), run_name="__main__")


def off_by_one(all_reduce):
    """`all_reduce`, after which rank 1 has one more in its last element."""

    def reduce(tensor, *arguments, **keywords):
        all_reduce(tensor, *arguments, **keywords)
        tensor[-1] += dist.get_rank() == 1

    return reduce


if __name__ == "__main__":
    main()
