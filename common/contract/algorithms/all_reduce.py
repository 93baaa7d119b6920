"""The algorithms of an all-reduce by name.

Each tells its cost by Hockney's model ("The communication challenge for MPP", 1994): for N ranks and S bytes, with
alpha seconds before a message, and beta bytes sent and gamma bytes added in a second. Thakur writes beta for 1 / beta.
"""

from collections.abc import Mapping

from common.contract.algorithms.binomial_tree import binomial_tree
from common.contract.algorithms.central_server import central_server
from common.contract.algorithms.exchange import AllReduce
from common.contract.algorithms.halving_doubling import halving_doubling
from common.contract.algorithms.recursive_doubling import recursive_doubling
from common.contract.algorithms.ring import ring

ALGORITHMS: Mapping[str, AllReduce] = {
    "ring": ring,
    "recursive_doubling": recursive_doubling,
    "halving_doubling": halving_doubling,
    "binomial_tree": binomial_tree,
    "central_server": central_server,
}
"""In the order in which to read them. A library of this name carries one out."""
