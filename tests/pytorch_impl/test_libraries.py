"""pytorch_impl/libraries.py: the bytes by formula of Gloo's reduction, and of the all-reduces by hand."""

import pytest

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.contract.algorithms.exchange import steps
from pytorch_impl.libraries import BY_HAND, GLOO, NCCL, OPEN_MPI, gloo_reduce_bytes

MIB = 2**20


@pytest.mark.parametrize(
    ("size", "ranks", "factor"), [(MIB, 2, 1.5), (4 * MIB, 2, 1.5), (8 * MIB, 2, 2.0), (MIB, 4, 3.75), (MIB, 3, 8 / 3)]
)
def test_the_formula_of_gloos_reduce_counts_the_sums_that_go_too_far(size, ranks, factor):
    assert gloo_reduce_bytes(size, ranks) == pytest.approx(factor * size)


@pytest.mark.parametrize("library", BY_HAND, ids=lambda library: library.name)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 8, 9])
def test_the_declared_formula_is_what_the_exchanges_send(library, ranks):
    elements = 8 * ranks
    exchanges = [each for step in steps(ALGORITHMS[library.name], ranks, elements) for each in step.values()]
    sent = sum(each.sent.stop - each.sent.start for each in exchanges)
    assert library.algorithm("all_reduce", 8).sent_bytes(elements, ranks) == sent


def test_every_collective_is_there_in_each_library_of_pytorchs():
    assert not {**GLOO.lacks, **OPEN_MPI.lacks, **NCCL.lacks}
