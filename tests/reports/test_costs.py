"""What the section on time says beside its tables, and which of its parts stand there at all."""

import dataclasses

from common.record import Record
from reports import costs
from reports.blocks import DASH
from reports.material import gather
from reports.results import Results
from tests.reports.records import make_record, named, varied


def section(tmp_path, *records: Record) -> list[dict]:
    return costs.section(gather(Results(tmp_path, named(*records), None)))


def table_under(blocks: list[dict], heading: str) -> dict:
    start = next(index for index, block in enumerate(blocks) if block.get("text") == heading)
    return next(block for block in blocks[start:] if block["kind"] == "table")


def test_formulas_are_named_only_where_they_are_used(tmp_path):
    carried = {"wire_bytes_per_step": 1.0}
    ring = str(section(tmp_path, make_record("torch_ddp", 2, **carried)))
    assert "ring all-reduce" in ring
    assert "torch_fsdp" not in ring
    assert "There is none" not in ring
    others = [make_record(name, 2, **carried) for name in ("torch_fsdp", "torch_zero", "torch_model_parallel")]
    rounded = dataclasses.replace(varied("torch_ddp", 2, gradient_hook="fp16"), **carried)
    blocks = section(tmp_path, *others, rounded)
    for words in ("for torch_fsdp (", "for torch_zero (", "half of that where they are rounded", "There is none"):
        assert words in str(blocks)
    rows = {row[0]: row for row in table_under(blocks, "Where the time goes")["rows"]}
    assert rows["torch_model_parallel"][-1] == DASH
    assert rows["torch_fsdp"][-1] == "0.207"


def test_what_one_process_costs_stands_beside_what_tutorials_claim(tmp_path):
    one = make_record("torch_data_parallel", 2, (3.0,) * 3, rank_factors=(1.0,))
    blocks = section(tmp_path, make_record("torch_ddp", 2, (2.0,) * 3), one)
    assert "Tutorials claim a factor of 2 to 3." in str(blocks)
    assert "Here it is 1.50 (digits weak, 2 workers, n = 1)." in str(blocks)
    assert table_under(blocks, "What one process costs")["rows"] == [
        ["torch_data_parallel", "torch_ddp", "2", "digits weak", "3.00", "2.00", "1.50", DASH, "1"]
    ]


def test_rows_from_memory_and_from_a_loader_stand_side_by_side(tmp_path):
    def waiting(record: Record, seconds: float) -> Record:
        return dataclasses.replace(record, windows=[window | {"input_seconds": seconds} for window in record.windows])

    plain = [waiting(make_record("torch_ddp", workers), 0.002) for workers in (1, 2)]
    loader = [waiting(varied("torch_ddp", workers, loader_workers=2), 0.0001) for workers in (1, 2)]
    rows = table_under(section(tmp_path, *plain, *loader), "Waiting for rows")["rows"]
    assert [row[1:] for row in rows] == [
        ["1", "torch_ddp", "1", "0.200", "2.00", "10.0 %"],
        ["1", "torch_ddp, 2 loader workers", "1", "0.0100", "2.00", "0.5 %"],
        ["2", "torch_ddp", "1", "0.200", "2.00", "10.0 %"],
        ["2", "torch_ddp, 2 loader workers", "1", "0.0100", "2.00", "0.5 %"],
    ]


def test_parts_without_measurements_are_left_out(tmp_path):
    headings = [block["text"] for block in section(tmp_path, make_record("torch_ddp")) if block["kind"] == "heading"]
    assert headings == ["Where the time goes"]
