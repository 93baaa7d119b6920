"""common/records/manifest.py: what was edited, lost or added since the launches ended is named."""

import subprocess

import pytest

from common.records import manifest
from common.records.manifest import FILE, Differences


@pytest.fixture
def folder(tmp_path):
    """A session's folder with a launch, its weights, a probe and the plan, all of them noted."""
    for name in ("a-01.json", "a-01.safetensors", "plan.csv", "ceilings/torch.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"the content of {name}")
    # A log, an attempt before and a launch of a longer name are none of the launch's files.
    for name in ("a-01.log", "a-01.json.first", "a-012.safetensors"):
        (tmp_path / name).write_text("what is not noted")
    manifest.note(tmp_path, manifest.files_of(tmp_path, "a-01"))
    manifest.note(tmp_path, [tmp_path / "plan.csv", tmp_path / "ceilings" / "torch.json"])
    return tmp_path


def test_the_manifest_is_one_that_sha256sum_checks_and_nothing_differs_from_what_was_noted(folder):
    assert {*manifest.read(folder)} == {"a-01.json", "a-01.safetensors", "plan.csv", "ceilings/torch.json"}
    assert manifest.check(folder) == Differences(exists=True)
    assert manifest.summary(manifest.check(folder)) == "as they were noted when the launches ended"
    subprocess.run(["sha256sum", "--check", "--strict", FILE], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("name", "launches"),
    [("a-01.json", {"a-01"}), ("a-01.safetensors", {"a-01"}), ("plan.csv", set()), ("ceilings/torch.json", set())],
)
def test_an_edited_file_is_named_and_so_is_its_launch_until_it_is_noted_again(folder, name, launches):
    (folder / name).write_text("edited")
    found = manifest.check(folder)
    assert (found.changed, found.launches) == ((name,), launches)
    assert manifest.in_words(found) == [f"{name} differs from what its launch left."]
    manifest.note(folder, [folder / name])
    assert manifest.check(folder) == Differences(exists=True)


def test_what_is_gone_and_what_was_added_is_named_and_of_many_the_first(folder):
    (folder / "a-01.safetensors").unlink()
    (folder / "b-01.json").write_text("made by hand")
    found = manifest.check(folder)
    assert (found.missing, found.unnoted) == (("a-01.safetensors",), ("b-01.json",))
    assert found.launches == {"a-01", "b-01"}
    assert manifest.summary(found) == "a-01.safetensors is missing. b-01.json was left by no launch of this session."
    manifest.note(folder, [folder / "a-01.safetensors"])
    assert manifest.check(folder).missing == ()
    for name in ("b-02", "b-03"):
        (folder / "ceilings" / f"{name}.json").write_text("made by hand")
    said = "files were left by no launch of this session: b-01.json, ceilings/b-02.json, ceilings/b-03.json"
    assert manifest.in_words(manifest.check(folder)) == [f"3 {said}."]
    (folder / "ceilings" / "b-04.json").write_text("made by hand")
    assert manifest.in_words(manifest.check(folder)) == [f"4 {said} and 1 more."]


def test_a_line_that_is_no_text_hides_no_other_and_a_name_may_have_two_spaces(folder):
    name = "a  b.json"
    (folder / name).write_text("{}")
    manifest.note(folder, [folder / name])
    (folder / FILE).write_bytes(b"\xff\n" + (folder / FILE).read_bytes())
    assert len(manifest.read(folder)[name]) == 64
    assert manifest.check(folder) == Differences(exists=True)


def test_a_folder_without_a_manifest_says_so(tmp_path):
    assert manifest.check(tmp_path) == Differences()
    assert manifest.summary(Differences()).startswith("none were noted")
