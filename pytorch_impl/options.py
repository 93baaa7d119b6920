"""Options of PyTorch's loops, for torch.distributed and for Horovod."""

from dataclasses import dataclass
from typing import Literal

from common.contract.task import Task
from common.declarations.strategy import Options, option


@dataclass(frozen=True, kw_only=True)
class LoaderOptions(Options):
    """Options of strategies whose workers take their rows themselves and compute whole layers."""

    precision: Literal["float32", "tf32", "bf16"] = option("float32", other_maths=True, tried=("bf16",))
    """How the layers' products are computed: bf16 is torch.autocast's, tf32 a GPU's rounding of float32 factors to 10
    bits. Both change the maths."""
    loader_workers: int = option(0, at_least=0, tried=(2,))
    """Processes of a DataLoader that prepare each worker's batches ahead; 0: taken from memory as needed."""

    def shared_memory_bytes(self, task: Task | None, workers: int) -> int:
        """The batches on their way as well: two of each loader's process (`prefetch_factor`), and two that are used.

        Pages of tensors and semaphores took up to 37 KiB more for each process (torch 2.13).
        """
        needed = super().shared_memory_bytes(task, workers)
        if task is None or not self.loader_workers:
            return needed
        global_batch = task.batch * (workers if task.scaling == "weak" else 1)
        batches = (2 * self.loader_workers + 2) * global_batch * task.row_bytes
        return needed + batches + self.loader_workers * workers * 40 * 1024
