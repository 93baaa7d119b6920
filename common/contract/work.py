"""How workers share the work, and what they compute with gradient exchange off. Standard library only."""

from enum import Enum


class Work(Enum):
    """How the workers share the work. It decides the rows that each process gets and counts."""

    UNDISTRIBUTED = "a single worker computes everything"
    DATA_PARALLEL = "each worker is a process with a replica of the model, and rows of its own"
    REPLICAS_IN_ONE_PROCESS = "one process holds a replica for each worker, and gets the rows of all of them"
    COORDINATED = "one process gets the rows of all workers, which are other processes, and deals them out"
    PARTS_OF_ONE_MODEL = "each worker is a process with a part of the model, and all of them get the whole batch"

    @property
    def is_one_process(self) -> bool:
        """Whether a single process has all workers, so that none of them can be lost alone."""
        return self in (Work.UNDISTRIBUTED, Work.REPLICAS_IN_ONE_PROCESS)


class Alone(Enum):
    """What a run with gradient exchange off computes, which its workers have to follow."""

    OWN_SHARD = "each worker trains a model of its own, by the mean gradient of its shard"
    OWN_PART = "each worker trains a model of its own, by its shard's part of the mean over the global batch"
    FIRST_PART = "there is one model, and it takes the first shard's part of the mean over the global batch"
    OWN_PARAMETERS = "as with its own shard, but each worker trains only those parameters that it owns"
