"""The replicas' rows of a step: kept on the devices, or read through tf.data (`--input`)."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from common.contract.rows import local_batch
from common.measurement.run import Run

Load = Callable[[tf.Tensor], tuple]
"""Called inside the compiled step, outside `strategy.run`, with the numbers of this process's rows.

Returns every replica's (features, labels) as arguments for `strategy.run`: (rows, inputs) float32 and (rows,) int64 on
each replica."""

STEPS_AHEAD = 64
"""Steps whose row numbers Python hands to tf.data at a time. Step by step they cost a third of a small step's time."""


def loader(run: Run, strategy: tf.distribute.Strategy) -> Load:
    """The function that loads every replica's slice of this process's rows, by the run's `--input`."""
    return _from_memory(run, strategy) if run.options.input == "memory" else _from_pipeline(run, strategy)


def _from_memory(run: Run, strategy: tf.distribute.Strategy) -> Load:
    """Keep all rows on every device and gather a step's rows there. Feeding rows would cost as much as a small step."""
    devices = strategy.extended.worker_devices

    def whole_set(context: tf.distribute.experimental.ValueContext) -> tuple:
        with tf.device(devices[context.replica_id_in_sync_group % len(devices)]):
            return tf.constant(run.dataset.train_features), tf.constant(run.dataset.train_labels)

    train_set = strategy.experimental_distribute_values_from_function(whole_set)

    def gather(rows: tf.Tensor, train_features: tf.Tensor, train_labels: tf.Tensor) -> tuple:
        if len(devices) > 1:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group % len(devices)
            rows = tf.reshape(rows, (len(devices), -1))[replica]
        return tf.gather(train_features, rows), tf.gather(train_labels, rows)

    return lambda rows: strategy.run(gather, args=(rows, *train_set))


def _from_pipeline(run: Run, strategy: tf.distribute.Strategy) -> Load:
    """Read this process's own tf.data pipeline, which has the rows in the contract's order, step by step."""
    replicas = len(strategy.extended.worker_devices)
    rows_per_replica = local_batch(run.task, run.world.size)
    with tf.device("/cpu:0"):  # Where tf.data works.
        train_features = tf.constant(run.dataset.train_features)
        train_labels = tf.constant(run.dataset.train_labels)

    def row_numbers() -> Iterator[np.ndarray]:
        rows_of_steps = run.rows(run.first_step)
        while True:
            yield np.concatenate(list(itertools.islice(rows_of_steps, STEPS_AHEAD)))

    def pipeline(_context: tf.distribute.InputContext) -> tf.data.Dataset:
        signature = tf.TensorSpec((STEPS_AHEAD * replicas * rows_per_replica,), tf.int64)
        numbers = tf.data.Dataset.from_generator(row_numbers, output_signature=signature)
        # One batch per replica, in the order of the replicas. TensorFlow takes the pipeline for endless only with
        # `repeat`. Otherwise several workers would agree in every step on which of them still have rows.
        batches = numbers.rebatch(rows_per_replica, drop_remainder=True).repeat()
        batches = batches.map(lambda rows: (tf.gather(train_features, rows), tf.gather(train_labels, rows)))
        return batches.prefetch(2 * replicas)

    iterator = iter(strategy.distribute_datasets_from_function(pipeline))
    return lambda _rows: next(iterator)
