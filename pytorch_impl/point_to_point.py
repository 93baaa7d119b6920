"""An all-reduce by hand: a rank's exchanges carried out by torch.distributed's sends and receives."""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from common.contract.algorithms.exchange import Exchange


def carry_out(exchanges: Sequence[Exchange], buffer: torch.Tensor, arrivals: torch.Tensor) -> None:
    """Replace the rank's input in `buffer` by the sum. `arrivals`, as long, holds what is still to be added."""
    for exchange in exchanges:
        received = (arrivals if exchange.adds else buffer)[exchange.received]
        requests: list[dist.Work] = []
        if exchange.receive_from is not None:
            requests.append(dist.irecv(received, exchange.receive_from))
        if exchange.send_to is not None:
            requests.append(dist.isend(buffer[exchange.sent], exchange.send_to))
        for request in requests:
            request.wait()
        if exchange.adds:
            buffer[exchange.received] += received
