"""The picture of matrix products: what must be on it, and that it is the same for the same records."""

import pytest

from common.errors import UserError
from common.records import matrix_rows
from common.records.files import write_record
from reports import matrix_figures
from tests.common.records.matrix_records import session
from tests.reports.drawings import words

TIMES = {
    "naive": {16: 0.001, 32: 0.008, 64: 0.064},
    "alone": {64: 0.0001, 128: 0.0008},
    "rows_mpi": {64: 0.0002, 128: 0.0006},
}


def drawn(launches=6):
    return matrix_figures.products(matrix_rows.rows(session(launches, TIMES))).decode()


def test_it_names_every_way_the_fitted_exponents_and_the_sizes():
    said = words(drawn())
    assert {"naive:", "alone:", "rows over mpi, 2 workers"} <= {line for text in said for line in text.split("\n")}
    assert " ".join(said).count("size^3.00") == 2
    assert {"16", "32", "64", "128"} <= {*said}
    assert "95 % interval of the median" in said


def test_fewer_than_six_launches_have_no_intervals():
    assert "95 % interval of the median" not in words(drawn(launches=5))


def test_it_is_svg_without_pixels_and_the_same_for_the_same_records():
    svg = drawn()
    assert "<image" not in svg
    assert drawn() == svg


def test_it_is_written_from_a_folder_of_records(tmp_path):
    for name, record in session(1, TIMES).items():
        write_record(tmp_path / f"{name}.json", record)
    matrix_figures.write_figure(tmp_path, tmp_path / "picture.svg")
    assert "naive" in (tmp_path / "picture.svg").read_text()


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(UserError, match="has no record of a launch that multiplied anything"):
        matrix_figures.write_figure(tmp_path, tmp_path / "picture.svg")
