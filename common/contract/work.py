"""How workers share the work, what an update is made of, and in which order a step sends.

Standard library only.
"""

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

    @property
    def is_divided(self) -> bool:
        """Whether workers divide the model, not its rows."""
        return self is Work.PARTS_OF_ONE_MODEL


class Recipe(Enum):
    """What the update of each replica is to be made of."""

    AVERAGE = "every worker's mean gradient counts 1/N"
    WHOLE_BATCH = "the mean gradient of the whole batch counts once, whichever worker has which part of the model"
    OWN_SHARD = "without exchange, each replica counts its own worker's mean gradient alone"
    OWN_PART = "without exchange, each replica counts 1/N of its own worker's mean gradient"
    FIRST_PART = "without exchange, the one model counts 1/N of the first worker's mean gradient"
    OWN_PARAMETERS = "without exchange, each replica counts its own worker's, and only for parameters that it owns"

    @property
    def keeps_alike(self) -> bool:
        """Whether all replicas have to be alike."""
        return self in (Recipe.AVERAGE, Recipe.WHOLE_BATCH)


class Order(Enum):
    """In which order a step computes and sends."""

    AT_END = "all gradients are summed when the last one is there"
    ONE_BY_ONE = "the gradients of each array are summed by themselves when the last one is there"
    BUCKETS = "gradients are summed in buckets, each as soon as it is full, while others are computed"
    FUSED = "gradients that are ready in the same cycle are summed as one message, while others are computed"
    SHARDS = "parameters are gathered before each use, gradients are reduced and scattered"
    SHARDS_ONCE = "parameters are gathered once before anything is computed, and gradients are scattered at the end"
    SHARDED_STATE = "all gradients are summed, and each parameter comes from the rank that updates it"
    SERVERS = "workers fetch parameters from servers and send them gradients"
    STAGES = "micro-batches go through stages, which each have some layers"
