"""common/results_folder.py: what was interrupted goes on in its folder, and nothing else does."""

from common.results_folder import order_seed, unfinished_or_new


def begun(results, name, identity="as this", **files):
    folder = results / name
    folder.mkdir(parents=True)
    for file, text in {"options.txt": identity, **files}.items():
        (folder / file).write_text(text)
    return folder


def found(results):
    return unfinished_or_new(results, "quick", "as this", "finished")


def test_the_newest_unfinished_folder_goes_on(tmp_path):
    begun(tmp_path, "20260101T000000-quick")
    newest = begun(tmp_path, "20260102T000000-quick")
    assert found(tmp_path) == newest


def test_what_is_finished_or_of_another_kind_or_was_begun_otherwise_does_not_go_on(tmp_path):
    others = {
        begun(tmp_path, "20260101T000000-quick", finished=""),
        begun(tmp_path, "20260102T000000-full"),
        begun(tmp_path, "20260103T000000-quick", identity="as that"),
    }
    (tmp_path / "20260104T000000-quick").mkdir()
    new = found(tmp_path)
    assert new not in others
    assert new.name.endswith("-quick")
    assert (new / "options.txt").read_text() == "as this"


def test_a_new_folder_is_made_where_there_is_none_and_goes_on_from_then(tmp_path):
    new = found(tmp_path / "results")
    assert found(tmp_path / "results") == new


def test_the_order_is_that_with_which_the_folder_was_begun(tmp_path):
    assert order_seed(tmp_path, 5) == 5
    assert order_seed(tmp_path, 6) == order_seed(tmp_path, None) == 5


def test_where_no_order_is_asked_for_every_folder_has_its_own(tmp_path):
    seeds = [order_seed(tmp_path / name, None) for name in "abc"]
    assert len({*seeds}) == 3
    assert [order_seed(tmp_path / name, None) for name in "abc"] == seeds
