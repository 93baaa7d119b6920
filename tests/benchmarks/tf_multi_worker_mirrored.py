"""tf_multi_worker_mirrored in turn with a bare loop on the same cluster."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import tensorflow as tf

from common.measurement.run import Run
from tests.benchmarks import bare_tensorflow, paired
from tf_impl import cluster, multi_worker_mirrored
from tf_impl.strategies import MULTI_WORKER_MIRRORED

Strategy = tf.distribute.MultiWorkerMirroredStrategy


def main() -> None:
    """Both loops share the strategy, since a process can belong to one cluster only."""
    made = []

    def make_strategy(*arguments: object) -> Strategy:
        made.append(Strategy(*arguments))
        return made[0]

    def make_bare_window(run: Run) -> paired.BareWindow:
        return bare_tensorflow.make_window(run, made[0])

    tf.distribute.MultiWorkerMirroredStrategy = make_strategy
    paired.main(multi_worker_mirrored, make_bare_window)


if __name__ == "__main__":
    cluster.start_unless_given(MULTI_WORKER_MIRRORED, __doc__)
    main()
