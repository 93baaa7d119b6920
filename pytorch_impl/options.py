"""Options of PyTorch's loops, for torch.distributed and for Horovod."""

from dataclasses import dataclass

from common.declarations.strategy import Options, option


@dataclass(frozen=True, kw_only=True)
class LoaderOptions(Options):
    """Options of strategies whose workers take their rows themselves and compute whole layers."""

    bf16_autocast: bool = option(False, other_maths=True, tried=(True,))
    """Compute the layers' products in bfloat16. Changes the maths."""
    loader_workers: int = option(0, at_least=0, tried=(2,))
    """Processes of a DataLoader that prepare each worker's batches ahead; 0: taken from memory as needed."""
