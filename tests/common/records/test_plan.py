"""What a comparison plans, as its tables tell: read as it was written, or refused."""

import pytest

from common.errors import UserError
from common.records.plan import LEFT_OUT, PLAN, LeftOut, PlannedRow, read_left_out, read_plan
from common.records.tables import write_rows
from tests.reports.records import HEADER

ROW = PlannedRow(
    **{"position": 1, "launch": "a", "strategy": "numpy_threads", "label": "", "preset": "digits", "scaling": "weak"},
    **{"workers": 2, "exchange": False, "repetition": 1, "purpose": "throughput", "order_seed": 5},
    **{"hosts": 2, "bandwidth_bits_per_second": 1e7, "stage": "round", "margin": 0.02},
)


def test_what_was_written_is_what_is_read_and_earlier_plans_are_of_one_host_and_of_rounds(tmp_path):
    assert (read_plan(tmp_path), read_left_out(tmp_path)) == (None, {})
    write_rows(tmp_path / PLAN, [ROW], PlannedRow)
    write_rows(tmp_path / LEFT_OUT, [LeftOut("numpy_threads", 12.5)], LeftOut)
    assert (read_plan(tmp_path), read_left_out(tmp_path)) == ([ROW], {"numpy_threads": 12.5})
    (tmp_path / PLAN).write_text(f"{HEADER}\n1,a,x,,digits,weak,2,True,1,throughput,5\n")
    [row] = read_plan(tmp_path)
    assert (row.hosts, row.bandwidth_bits_per_second, row.stage, row.exchange) == (1, None, "round", True)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([f"1,a,x,,digits,weak,2,True,{number},throughput,5,0.05" for number in (1, 2)], "plans a in two ways"),
        (["1,a,x,,digits,weak,2,maybe,1,throughput,5,0.05"], "exchange"),
        (["1,a,x,,digits,weak,2,True,,throughput,5,0.05"], "repetition"),
        (["1,a,x,,digits,weak,2,True,1,throughput,5,0"], "margin"),
        (["1,a"], "strategy"),
    ],
    ids=str,
)
def test_a_plan_that_contradicts_itself_or_has_wrong_values_is_refused(tmp_path, rows, said):
    (tmp_path / PLAN).write_text("\n".join([f"{HEADER},margin", *rows]))
    with pytest.raises(UserError, match=f"{PLAN} .*{said}.*: delete it or run the session again"):
        read_plan(tmp_path)


@pytest.mark.parametrize("content", ["strategy\nx\n", "strategy,minutes\nx,soon\n", "", "\udc80"])
def test_a_damaged_table_is_refused(tmp_path, content):
    (tmp_path / LEFT_OUT).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=f"{LEFT_OUT} can't be read"):
        read_left_out(tmp_path)
