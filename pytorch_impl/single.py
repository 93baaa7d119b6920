"""One process, no distribution: the base that every speed-up of PyTorch's strategies is measured against.

To start it: `python pytorch_impl/single.py --preset digits`.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

from torch.nn.functional import cross_entropy

from common import machine
from common.config import check_world_size, parse_command_line
from common.run import Run
from pytorch_impl import inputs
from pytorch_impl import model as contract


def main() -> None:
    """Train the MLP in this process, as the command line says."""
    config = parse_command_line(__doc__)
    check_world_size(config, 1, "torch_single")
    placement = machine.pin(config)
    device = contract.choose_device(config, local_rank=0, local_world_size=1)

    run = Run(
        config,
        strategy="torch_single",
        framework="torch",
        placement=placement,
        device=contract.device_name(device),
        synchronize=partial(contract.synchronize, device),
    )
    model = contract.build_model(config).to(device)
    optimizer = contract.build_optimizer(config, model)
    schedule = contract.build_schedule(config, optimizer, run.first_step)
    contract.load_state(config, model, optimizer, run.initial_state)
    take = inputs.prepare(run, device)

    for batch in run.steps():
        features, labels = take(batch)
        optimizer.zero_grad()
        loss = cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        run.observe(loss.detach())
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, model, optimizer))
    run.finish(contract.export_state(config, model, optimizer), contract.held_bytes(model, optimizer))


if __name__ == "__main__":
    exit_with_one_line(main)
