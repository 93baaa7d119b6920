"""horovod_impl/world.py, `commit`: training goes on without a worker that was lost, and with one that has come."""

import dataclasses

import pytest

from common.contract.rows import Piece
from common.records.accounted_launch import AccountedLaunch
from common.records.files import read_record
from common.records.recovery import Recovery, recovery_path
from tests.contract.worlds import contract_task
from tests.launching import assert_follows

STRATEGIES = ["horovod_torch", pytest.param("horovod_tensorflow", marks=pytest.mark.grid)]


def account_of(launched):
    return read_record(recovery_path(launched.folder / "run.json"), Recovery)


@pytest.mark.parametrize(("rank", "scaling"), [(0, "weak"), pytest.param(1, "strong", marks=pytest.mark.grid)])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_is_left_goes_on_along_the_oracle(strategy, rank, scaling, launch, comparison_of, tmp_path):
    task = dataclasses.replace(
        contract_task("digits", 2, tmp_path, scaling=scaling, activation="tanh"),
        inject=f"kill:rank={rank},step=60",
        window_steps=10,
    )
    launched = launch(strategy, task, commit_steps=25)
    assert_follows(launched, comparison_of(launched))
    assert (launched.record.world_size, launched.record.first_step) == (1, 50)
    assert len(launched.record.losses) == task.steps - 50
    # One of two workers has half of the rows under weak scaling, and goes on with the rows that are next.
    pieces = [Piece(50, 2 * task.batch)] if scaling == "weak" else []
    assert launched.record.earlier_pieces == pieces
    account = account_of(launched)
    assert (len(account.attempts), account.steps_again) == (1, 10)
    assert AccountedLaunch(launched.record, account, "follows").became == "went on with 1 of 2"


@pytest.mark.grid
@pytest.mark.parametrize("strategy", ["horovod_torch", "horovod_tensorflow"])
def test_a_host_that_lost_its_worker_is_asked_again_and_gets_the_state(strategy, launch, tmp_path):
    task = dataclasses.replace(contract_task("digits", 2, tmp_path), inject="kill:rank=1,step=60")
    task = dataclasses.replace(task, steps=5_000, window_steps=500, warmup_steps=60, checkpoint_steps=0)
    launched = launch(strategy, task, commit_steps=50)
    assert (launched.status, launched.record.world_size) == (0, 2), launched.output
    assert 60 <= launched.record.first_step < task.steps
    moments = account_of(launched).moments
    assert len({moment.process for moment in moments}) == 3
    # Who has come trains beside who was left, until the end.
    assert len({(moment.rank, moment.process) for moment in moments if moment.step == task.steps}) == 2
