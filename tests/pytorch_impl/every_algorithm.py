"""Sum by every algorithm by hand in one world, and print which sums were right on all ranks.

To start it: `torchrun --nproc-per-node 3 tests/pytorch_impl/every_algorithm.py`. Some messages are empty: there are
fewer elements than ranks.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from common.contract.algorithms.all_reduce import ALGORITHMS

ELEMENTS = (1, 2, 100_003)


def main():
    """Join the world, sum, and gather on rank 0 whether each rank has NumPy's sum."""
    # The test, which reads ELEMENTS, has no torch.
    import numpy as np
    import torch
    import torch.distributed as dist

    from pytorch_impl.point_to_point import carry_out

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for name, algorithm in ALGORITHMS.items():
        for elements in ELEMENTS:
            inputs = np.random.default_rng(elements).integers(-1000, 1000, (ranks, elements))
            buffer = torch.from_numpy(inputs[rank].copy())
            carry_out([*algorithm(rank, ranks, elements)], buffer, torch.zeros_like(buffer))
            verdicts = [False] * ranks
            dist.all_gather_object(verdicts, np.array_equal(buffer.numpy(), inputs.sum(axis=0)))
            if rank == 0:
                print(f"{name} of {elements}: {verdicts}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
