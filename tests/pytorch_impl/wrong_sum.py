"""Run a script in which torch's all-reduce gives rank 1 one element that is wrong.

To start it: `python -m tests.pytorch_impl.wrong_sum SCRIPT OPTIONS`.
"""

from unittest.mock import patch

import torch.distributed as dist

from common.measurement.runner import run_script


def main():
    """Run the script that the first argument names, as if it had been started itself."""
    with patch.object(dist, "all_reduce", off_by_one(dist.all_reduce)):
        run_script()


def off_by_one(all_reduce):
    """`all_reduce`, after which rank 1 has one more in its last element."""

    def reduce(tensor, *arguments, **keywords):
        all_reduce(tensor, *arguments, **keywords)
        tensor[-1] += dist.get_rank() == 1

    return reduce


if __name__ == "__main__":
    main()
