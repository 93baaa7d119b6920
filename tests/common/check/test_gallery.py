"""common/check: real mistakes are named, right files are right, and filled exercises pass, each in launches of its own.

Every kind in every framework, and all numbers of workers, are in the grid of `nox -s contract`.
"""

from pathlib import Path

import pytest

from common.check.marks import Mark, mark
from common.check.training_file import like_of
from common.check.world import Assignment
from common.launching.launch import python_for
from common.paths import ROOT
from tests.common.check.kinds import EDITS, TEMPLATES, WORDS, program
from tests.common.check.solutions import EXERCISES, SOLUTIONS, filled
from tests.grid import in_grid

GALLERY = sorted((ROOT / "tests" / "common" / "check" / "gallery").glob("*.py"))

REAL = {
    "deepmd_kit_1104": WORDS["not exchanged"],
    "examples_1424": WORDS["not zeroed"],
    "jax_3970": WORDS["not exchanged"],
    "minimind_854": WORDS["not exchanged"],
    "nanogpt_168": WORDS["accumulated"],
    "spd_546": "In layer2.weight, layer2.bias alone: Each worker's gradient counted",
    "tensorflow_35333": WORDS["averaged twice"],
    "torchtune_2172": WORDS["averaged twice"],
    "transformers_34191": "parts of different size are averaged as if they were alike",
    "viscy_408": "Worker 1 has the rows of worker 0.",
}
"""What the sentence on each file of the gallery has to say."""

UNFILLED = {
    "hooks": WORDS["not exchanged"],
    "parameter_server": WORDS["rank 0's alone"],
    "ring_all_reduce": WORDS["not exchanged"],
    "sync_sgd": WORDS["not exchanged"],
    "zero_first_stage": WORDS["not sent"],
}
"""What is said of each exercise before its gaps are filled."""

OFTEN = {("spd_546", 2), ("transformers_34191", 2)}
"""Real mistakes that every run of the tests starts, and with how many workers."""


def marked(path: Path, workers: int, folder: Path) -> Mark:
    """The mark of a launch. Raises NotInstalledError without the framework's environment, which skips the test."""
    like, _ = like_of(path.read_text(encoding="utf-8"), None)
    python_for(like)
    return mark(path, workers, Assignment(workers=(workers,)), folder / "log")


def marked_source(source: str, workers: int, folder: Path) -> Mark:
    path = folder / "own.py"
    path.write_text(source, encoding="utf-8")
    return marked(path, workers, folder)


def others(found: Mark, words: str) -> list[str]:
    """Sentences that don't say this, but for those that follow from it: nothing was sent, or replicas differ."""
    following = "don't exchange gradients by the network", "Replicas differ before step"
    return [each for each in found.sentences if not any(part in each for part in (words, *following))]


def assert_named(found: Mark, words: str) -> None:
    assert found.verdict == "wrong", found.sentences
    assert any(words in each for each in found.sentences), found.sentences
    assert others(found, words) == []


@pytest.mark.parametrize(("name", "workers"), in_grid([(name, workers) for name in REAL for workers in (2, 4)], OFTEN))
def test_a_real_mistake_is_named(name, workers, tmp_path):
    [path] = [path for path in GALLERY if path.stem == name]
    assert_named(marked(path, workers, tmp_path), REAL[name])


def test_every_file_of_the_gallery_is_tried_and_stands_in_the_readme_with_its_project_and_number():
    assert {path.stem for path in GALLERY} == {*REAL}
    table = (ROOT / "common" / "check" / "README.md").read_text(encoding="utf-8")
    for path in GALLERY:
        project, number = path.read_text(encoding="utf-8").removeprefix('"""').partition(":")[0].split(", ")
        assert f"[{project} {number.split()[-1]}]" in table, path
        assert f"({Path('..', '..').joinpath(path.relative_to(ROOT))})" in table, path


@pytest.mark.parametrize(
    ("framework", "workers"),
    in_grid([(name, workers) for name in TEMPLATES for workers in (1, 2, 4)], [("torch", 2)]),
)
def test_a_right_file_is_right(framework, workers, tmp_path):
    found = marked_source(program(framework), workers, tmp_path)
    assert (found.verdict, found.sentences) == ("right", ())


@pytest.mark.grid
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(("framework", "kind"), [(name, kind) for name, edits in EDITS.items() for kind in edits])
def test_every_kind_is_named_in_every_framework(framework, kind, workers, tmp_path):
    assert_named(marked_source(program(framework, kind), workers, tmp_path), WORDS[kind])


@pytest.mark.parametrize(
    ("exercise", "workers"),
    in_grid([(path.stem, workers) for path in EXERCISES for workers in (1, 2, 4)], [("ring_all_reduce", 2)]),
)
def test_a_filled_exercise_is_right(exercise, workers, tmp_path):
    [path] = [path for path in EXERCISES if path.stem == exercise]
    found = marked_source(filled(path), workers, tmp_path)
    assert (found.verdict, found.sentences) == ("right", ())


@pytest.mark.parametrize(
    ("exercise", "workers"),
    in_grid([(path.stem, workers) for path in EXERCISES for workers in (2, 4)], [("parameter_server", 2)]),
)
def test_an_exercise_runs_as_it_stands_and_is_told_what_is_missing(exercise, workers, tmp_path):
    [path] = [path for path in EXERCISES if path.stem == exercise]
    assert_named(marked(path, workers, tmp_path), UNFILLED[exercise])


def test_every_exercise_has_a_solution():
    assert {path.stem for path in EXERCISES} == {*SOLUTIONS} == {*UNFILLED}
