"""common/records/recovery.py: what an account tells."""

from msgspec import structs

from common.records.files import read_record, write_record
from common.records.recovery import Recovery, recovery_path
from tests.common.records.recoveries import RESTARTED, attempt, moments


def test_an_account_of_a_launch_that_was_started_again_is_read_as_it_was_written(tmp_path):
    assert RESTARTED.detection_seconds == 0.5
    assert RESTARTED.next_step_seconds == 5.0
    assert RESTARTED.steps_again == 10
    assert RESTARTED.total_seconds == 12
    path = recovery_path(tmp_path / "a-b.0-01.json")
    write_record(path, RESTARTED)
    assert path.name == "a-b.0-01.recovery"
    assert read_record(path, Recovery) == RESTARTED


def test_who_went_on_by_itself_or_with_those_that_were_left_was_noticed_by_nobody():
    chief = moments(1, 0, (0, 1.0), (160, 3.0), (170, 7.0), (300, 8.0))
    account = structs.replace(RESTARTED, attempts=[attempt(0, 9, 9)], moments=chief)
    assert (account.detection_seconds, account.next_step_seconds, account.steps_again) == (None, 3.0, 0)
    survivor = [*moments(12, 1, (0, 2.0), (160, 3.9)), *moments(12, 0, (150, 4.2), (151, 4.5), (300, 8.0))]
    account = structs.replace(
        RESTARTED, attempts=[attempt(0, 9, 9)], moments=[*moments(11, 0, (0, 2.0), (160, 3.9)), *survivor]
    )
    assert (account.detection_seconds, account.next_step_seconds, account.steps_again) == (None, 0.5, 10)
    assert [life for life, _ in account.lives] == [0, 1, 0, 1, 2, 2, 2]


def test_without_a_fault_there_is_nothing_to_notice_and_what_a_stopped_process_says_is_no_step():
    account = Recovery(attempts=[attempt(0, 5, 5)], moments=moments(1, 0, (0, 1.0), (300, 4.0)))
    assert (account.detection_seconds, account.next_step_seconds, account.steps_again) == (None, None, 0)
    late = moments(12, 1, (170, 5.0))
    account = structs.replace(RESTARTED, attempts=RESTARTED.attempts[:1], moments=[*RESTARTED.moments[:7], *late])
    assert account.next_step_seconds is None
    of_the_first = moments(12, 1, (170, 4.7))
    account = structs.replace(RESTARTED, moments=[*RESTARTED.moments[:7], *of_the_first, *RESTARTED.moments[7:]])
    assert account.next_step_seconds == 5.0, "What was ended counts until that was noticed, and no longer."
