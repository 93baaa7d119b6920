"""common/contract/layers.py: each kind of layer against central differences, and the models that they make."""

import ast
import dataclasses
import math

import numpy as np
import pytest
from scipy.special import softmax

from common.contract import dataset, layers, model
from common.contract.task import PRESETS, Task
from common.errors import UserError
from common.paths import ROOT

ROWS = 3
KINDS = [
    (layers.Dense(4, 3), (4,)),
    (layers.Dense(4, 3, bias=False), (5, 4)),
    (layers.Convolution(2, 3, 3, padding=1), (5, 4, 2)),
    (layers.Convolution(2, 3, 3, bias=False), (3, 4, 2)),
    (layers.Pool("average"), (4, 2, 2)),
    (layers.Pool("maximum", 3), (6, 3, 2)),
    (layers.Reshape((2, 2, 1)), (4,)),
    (layers.Activation("relu"), (4,)),
    (layers.Activation("tanh"), (4,)),
    (layers.Activation("gelu"), (4,)),
    (layers.LayerNorm(4), (3, 4)),
    (layers.BatchNorm(2), (3, 2, 2)),
    (layers.Attention(2, 4), (3, 12)),
    (layers.Residual((layers.LayerNorm(4), layers.Dense(4, 12), layers.Attention(2, 4), layers.Dense(4, 4))), (3, 4)),
]


def numeric_gradient(compute, array):
    """The gradient of a number by an array's elements, by central differences."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        value = array[index]
        ends = []
        for shift in (1e-6, -1e-6):
            array[index] = value + shift
            ends.append(compute())
        array[index] = value
        gradient[index] = (ends[0] - ends[1]) / 2e-6
    return gradient


@pytest.mark.parametrize(("layer", "shape"), KINDS, ids=lambda value: type(value).__name__)
def test_gradients_are_those_of_central_differences_in_the_precision_of_the_values(layer, shape):
    generator = np.random.default_rng(0)
    initial = layer.initial(generator) if layer.shapes else {}
    weights = {name: value + 0.1 * generator.normal(size=value.shape) for name, value in initial.items()}
    values = generator.normal(size=(ROWS, *shape))
    passed = layer.forward(weights, values)
    assert passed.outputs.shape == (ROWS, *layer.output_shape(shape))
    by_outputs = generator.normal(size=passed.outputs.shape)
    by_inputs, gradients = passed.backward(by_outputs, 0.0)

    def projected():
        return float((layer.forward(weights, values).outputs * by_outputs).sum())

    assert by_inputs() == pytest.approx(numeric_gradient(projected, values), abs=1e-7)
    assert set(gradients) == set(layer.shapes)
    for name, weight in weights.items():
        assert gradients[name] == pytest.approx(numeric_gradient(projected, weight), abs=1e-7)
    single = layer.forward({name: value.astype(np.float32) for name, value in weights.items()}, np.float32(values))
    by_inputs, gradients = single.backward(np.float32(by_outputs), 0.0)
    assert {each.dtype for each in (single.outputs, by_inputs(), *gradients.values())} == {np.dtype(np.float32)}


def test_an_embedding_adds_up_the_gradients_of_a_token_and_of_a_position():
    layer = layers.Embedding(tokens=4, positions=2, width=1)
    weights = {"weight": np.array([[1.0], [2.0], [3.0], [4.0]]), "position": np.array([[10.0], [20.0]])}
    passed = layer.forward(weights, np.array([[1.0, 1.0], [3.0, 1.0]]))
    assert passed.outputs[..., 0].tolist() == [[12, 22], [14, 22]]
    by_tokens, gradients = passed.backward(np.array([[[1.0], [2.0]], [[4.0], [8.0]]], np.float32), 0.0)
    assert gradients["weight"][:, 0].tolist() == [0, 11, 0, 4]
    assert gradients["weight"].dtype == np.float32
    assert gradients["position"][:, 0].tolist() == [5, 10]
    assert by_tokens().tolist() == [[0, 0], [0, 0]]


def test_what_a_token_and_its_position_begin_with_has_a_variance_of_1():
    initial = layers.Embedding(tokens=96, positions=96, width=64).initial(np.random.default_rng(0))
    total = initial["weight"] + initial["position"]
    assert (total.mean(), total.var()) == pytest.approx((0, 1), abs=0.05)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_position_attends_to_itself_and_earlier_ones_by_the_softmax_of_scaled_products(scale):
    values = scale * np.random.default_rng(0).normal(size=(1, 3, 3, 2, 4))
    expected = np.zeros((3, 2, 4))
    for head, position in np.ndindex(2, 3):
        query, keys, sent = values[0, position, 0, head], values[0, : position + 1, 1, head], values[0, :, 2, head]
        expected[position, head] = softmax(keys @ query / math.sqrt(4)) @ sent[: position + 1]
    passed = layers.Attention(heads=2, width=8).forward({}, values.reshape(1, 3, 24))
    assert passed.outputs == pytest.approx(expected.reshape(1, 3, 8))


def test_batch_normalisation_takes_the_statistics_of_all_rows_that_it_is_given():
    values = np.array([[1.0, 10.0], [3.0, 30.0]])
    passed = layers.BatchNorm(2).forward({"weight": np.ones(2), "bias": np.zeros(2)}, values)
    assert passed.outputs == pytest.approx(np.array([[-1, -1], [1, 1]]), abs=1e-5)
    constant = layers.BatchNorm(2).forward({"weight": np.ones(2), "bias": np.zeros(2)}, np.ones((2, 2)))
    assert constant.outputs.tolist() == [[0, 0], [0, 0]]


def test_no_position_of_a_text_is_told_what_comes_later():
    task = PRESETS["text_gpt"]
    weights = model.initial_weights(task)
    texts = dataset.load(task).train_features[:2].copy()
    before = model.forward(task, weights, texts)
    assert model.accuracy(task, weights, texts, before.argmax(axis=2)) == 1
    texts[:, 20:] = 0
    after = model.forward(task, weights, texts)
    assert after[:, :20] == pytest.approx(before[:, :20], rel=1e-5)
    assert np.abs(after[:, 20:] - before[:, 20:]).max() > 0.1


def test_a_kink_moves_the_jump_of_a_slope_and_its_distance_is_told():
    relu = layers.Activation("relu").forward({}, np.array([[-2.0, 1e-7, 0.5]]))
    assert relu.kink_distance() == pytest.approx(1e-7)
    ones = np.ones((1, 3))
    assert [relu.backward(ones, kink)[0]().tolist() for kink in (0.0, 1e-6)] == [[[0, 1, 1]], [[0, 0, 1]]]
    image = np.array([[3.0, 1.0, 2.0], [3.0 - 1e-7, 0.0, 0.0], [0.0, 0.0, 0.0]]).reshape(1, 3, 3, 1)
    pool = layers.Pool("maximum", 3).forward({}, image)
    assert pool.kink_distance() == pytest.approx(1e-7)
    by_inputs = [pool.backward(np.ones((1, 1, 1, 1)), kink)[0]().ravel().tolist() for kink in (0.0, -1e-6, 1e-6)]
    assert [each.index(1) for each in by_inputs] == [0, 0, 3]
    assert [sum(each) for each in by_inputs] == [1, 1, 1]
    alike = layers.Pool("maximum").forward({}, np.ones((1, 2, 2, 1))).backward(np.ones((1, 1, 1, 1)), 0.0)[0]()
    assert alike.ravel().tolist() == [1, 0, 0, 0], "the first one"
    # The largest two of a square are apart by 0.5 and 7, and none is compared with another square's.
    squares = np.array([[3.0, 1.0, 0.0, 9.0], [2.5, 2.4, 2.0, 1.9]]).reshape(1, 2, 4, 1)
    assert layers.Pool("maximum").forward({}, squares).kink_distance() == pytest.approx(0.5)
    residual = layers.Residual((layers.Dense(3, 3, bias=False), layers.Activation("relu")))
    passed = residual.forward(dict.fromkeys(residual.shapes, np.eye(3)), np.array([[-2.0, 1e-7, 0.5]]))
    assert passed.kink_distance() == pytest.approx(1e-7)
    assert [passed.backward(ones, kink)[0]().tolist() for kink in (0.0, 1e-6)] == [[[1, 2, 2]], [[1, 1, 2]]]
    assert layers.Pool("average", 3).forward({}, image).kink_distance() == math.inf


def test_parameters_pieces_and_operations_of_the_networks_are_those_of_the_literature():
    lenet, cnn, gpt = (PRESETS[name] for name in ("mnist_lenet", "mnist_cnn", "text_gpt"))
    # LeCun et al. 1998, section II.B, but for the connection table: C3 has 6 x 16 kernels.
    assert model.parameter_bytes(lenet) // 4 == 156 + 2416 + 48120 + 10164 + 850
    forward = 2 * (28 * 28 * 25 * 6 + 10 * 10 * 25 * 6 * 16 + 400 * 120 + 120 * 84 + 84 * 10)
    assert model.operations(lenet) == 3 * forward
    assert [len(piece.shapes) for piece in model.pieces(lenet)] == [2] * 5
    assert [piece.output_shape for piece in model.pieces(lenet)] == [(14, 14, 6), (400,), (120,), (84,), (10,)]
    for task, pool, image in ((lenet, "average", (5, 5, 16)), (cnn, "maximum", (6, 6, 64))):
        for activation in ("tanh", "relu"):
            named = model.named_layers(dataclasses.replace(task, activation=activation)).values()
            bare = {each for each in named if isinstance(each, layers.Activation | layers.Pool)}
            assert bare == {layers.Activation(activation), layers.Pool(pool)}
        assert [each.image for each in named if isinstance(each, layers.Dense)] == [image, (), ()]
    assert model.parameter_bytes(cnn) // 4 == 320 + 18496 + 2304 * 600 + 600 + 600 * 120 + 120 + 1210
    block = 2 * 128 + (64 * 192 + 192) + (64 * 64 + 64) + (64 * 256 + 256) + (256 * 64 + 64)
    assert model.parameter_bytes(gpt) // 4 == 96 * 64 + 32 * 64 + 2 * block + 128 + 64 * 96 + 96
    # Without biases, and with the two numbers of each channel that batch normalisation has in place of one.
    biases = {lenet: 6 + 16 + 120 + 84 + 10, cnn: 32 + 64 + 600 + 120 + 10, gpt: 2 * (192 + 64 + 256 + 64) + 96}
    for task, count in biases.items():
        without = dataclasses.replace(task, bias=False)
        assert model.parameter_bytes(task) - model.parameter_bytes(without) == 4 * count
        assert not model.is_smooth(dataclasses.replace(task, activation="relu"))
    for kind in ("local", "synchronised"):
        normal = dataclasses.replace(cnn, batch_norm=kind)
        assert model.parameter_bytes(normal) - model.parameter_bytes(cnn) == 4 * (32 + 64)
        norms = [layer for layer in model.named_layers(normal).values() if isinstance(layer, layers.BatchNorm)]
        assert norms == [layers.BatchNorm(channels, kind == "synchronised") for channels in (32, 64)]
    dense = 2 * 32 * (2 * (64 * 192 + 64 * 64 + 2 * 64 * 256) + 64 * 96)
    assert model.operations(gpt) == 3 * (dense + 2 * 4 * 32**2 * 64)
    assert [model.is_smooth(task) for task in (lenet, cnn, gpt, Task(), Task(dimensions=(64, 10)))] == [
        *(True, False, True, False, True)
    ]
    for task in (lenet, cnn, gpt, Task()):
        attention = 3 * 2 * 4 * 32**2 * 64 if task == gpt else 0
        of_leaves = sum(layer.operations(shape) for layer, shape in model.leaves(task))
        assert 3 * of_leaves == model.operations(task) - attention
        pieces = model.pieces(task)
        assert [name for piece in pieces for name in piece.shapes] == model.parameter_names(task)
        assert 3 * sum(piece.operations for piece in pieces) == model.operations(task)
        for name, shape in model.parameter_shapes(task).items():
            assert model.layer_of(task, f"{name}.momentum").shapes[name.split(".")[-1]] == shape


@pytest.mark.parametrize("folder", ["pytorch_impl", "tf_impl", "jax_impl"])
def test_a_kind_of_layer_is_one_class_and_one_case_in_each_framework(folder):
    kinds = {
        each.__name__ for each in vars(layers).values() if isinstance(each, type) and issubclass(each, layers.Layer)
    }
    tree = ast.parse((ROOT / folder / "model.py").read_text(encoding="utf-8"))
    cases = [ast.unparse(node.cls) for node in ast.walk(tree) if isinstance(node, ast.MatchClass)]
    assert {*cases} == kinds - {"Layer", "BatchNorm"} | ({"BatchNorm"} & {*cases})
    assert {name: cases.count(name) for name in cases if cases.count(name) > 1} in ({}, {"Reshape": 2})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "lenet"}, "A convolution of 5 x 5 and 6 channels can't read values of the shape"),
        ({"model": "lenet", "dimensions": (60, 10)}, "reads square images, and rows of 60 features are none"),
        ({"model": "fashion_cnn", "dimensions": (49, 10)}, "Squares of 2 x 2 pixels don't divide"),
        ({"model": "gpt"}, "a gpt reads the text of text_gpt"),
        ({"preset": "text_gpt", "model": "gpt", "dimensions": (32, 66, 96)}, "doesn't divide into 4 heads"),
        ({"preset": "text_gpt", "model": "gpt", "dimensions": (32, 64, 32, 96)}, "the same width once for each block"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(options, sentence):
    with pytest.raises(UserError, match=sentence):
        model.named_layers(Task(**options))


@pytest.mark.parametrize("shape", [(3, 4, 1), (4, 3, 1)])
def test_squares_of_pixels_have_to_divide_both_edges(shape):
    with pytest.raises(UserError, match="don't divide"):
        layers.Pool("average").output_shape(shape)


def test_kinds_of_layers_that_somebody_does_not_take_are_refused_by_their_names():
    with pytest.raises(UserError, match="Keras's fit takes no layers of the kind Embedding or Residual or LayerNorm"):
        model.check_kinds(PRESETS["text_gpt"], frozenset({"Dense"}), "Keras's fit", "use tf_mirrored")
