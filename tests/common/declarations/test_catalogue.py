"""common/declarations/catalogue.py: every folder's declarations are found, in order, and one that can't be meant is
one line."""

import dataclasses
import importlib
import math
import sys
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from common.declarations import catalogue
from common.errors import UserError

HEAD = """
from common.declarations.strategy import Family, Strategy
FAMILY = Family(title="Made up", environment="e", imports="numpy", packages=(), colors=("a", "b", "c"))
def declare(script, **values):
    return Strategy(**dict(script=script, summary="one", family=FAMILY, framework="numpy") | values)
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A function that writes declarations of made-up folders, of which the catalogue consists from then on."""
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    catalogue.strategies.cache_clear()

    def write(**declarations):
        for folder, source in declarations.items():
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "strategies.py").write_text(HEAD + source)
            (tmp_path / folder / "one.py").touch()
        importlib.invalidate_caches()

    yield write
    catalogue.strategies.cache_clear()
    for name in set(sys.modules) - before:
        if name.partition(".")[0].endswith("_impl"):
            del sys.modules[name]


def test_strategies_come_in_the_order_of_their_declarations_and_are_found_by_their_names(folders, refusal, tmp_path):
    (tmp_path / "empty_impl").mkdir()
    folders(
        other='OTHER = declare("other/one.py", name="other")',
        made_impl="""
LATER = declare("made_impl/one.py", name="z_first")
EARLIER = declare("made_impl/one.py", name="a_second", base="z_first", compared_with={"like": "m_third"})
LAST = declare("made_impl/one.py", name="m_third", base="z_first")
NO_STRATEGY = "made_impl/one.py"
""",
    )
    known = catalogue.strategies()
    assert list(known) == [strategy.name for strategy in known.values()] == ["z_first", "a_second", "m_third"]
    assert catalogue.find("m_third") is known["m_third"]
    said = "There is no strategy named 'third': choose one of z_first, a_second, m_third."
    assert refusal(lambda: catalogue.find("third")) == said


@pytest.mark.parametrize(
    ("declaration", "said"),
    [
        ('"a_impl/one.py", launcher="slurmrun"', "a has the unknown launcher 'slurmrun': use "),
        ('"a_impl/two.py"', "a has the script a_impl/two.py, which doesn't exist: "),
        ('"a_impl"', "a has the script a_impl, which doesn't exist: "),
        ('"a_impl/one.py", base="b"', "a refers to b, which no folder declares: "),
        ('"a_impl/one.py", compared_with={"convenience of": "b"}', "a refers to b, which no folder declares: "),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_one_line_that_names_its_place(folders, refusal, declaration, said):
    folders(a_impl=f'A = declare({declaration}, name="a")')
    assert refusal(catalogue.strategies).startswith(f"a_impl/strategies.py: {said}")


def test_a_name_that_two_folders_declare_is_refused(folders, refusal):
    folders(a_impl='A = declare("a_impl/one.py", name="same")', b_impl='B = declare("b_impl/one.py", name="same")')
    assert refusal(catalogue.strategies).startswith("b_impl/strategies.py and a_impl/strategies.py both declare same: ")


def test_a_folder_stands_behind_those_of_its_bases_and_a_family_is_known_by_its_environment(folders):
    folders(
        a_impl='A = declare("a_impl/one.py", name="a", base="d_alone")',
        b_impl='B = declare("b_impl/one.py", name="b_alone")',
        c_impl='C = declare("c_impl/one.py", name="c", base="b_alone")',
        d_impl='import dataclasses\nOTHER = dataclasses.replace(FAMILY, environment="f")\n'
        'D = declare("d_impl/one.py", name="d_alone", family=OTHER)',
    )
    known = catalogue.strategies()
    assert list(known) == ["b_alone", "d_alone", "a", "c"]
    assert list(catalogue.families()) == ["e", "f"]
    assert catalogue.families()["f"] == known["d_alone"].family


@pytest.mark.parametrize("strategy", catalogue.strategies().values(), ids=lambda strategy: strategy.name)
def test_speed_up_is_over_what_distributes_nothing_and_every_value_is_one_that_options_take(strategy):
    assert (strategy.base is None) == (strategy.most_workers == 1)
    assert strategy.base is None or catalogue.find(strategy.base).base is None
    for values in (*strategy.variants, *strategy.over_links, strategy.synchronous_with):
        assert dataclasses.asdict(strategy.options(**values)).items() >= dict(values).items()
    assert strategy.is_synchronous(strategy.options(**strategy.synchronous_with))
    for each in dataclasses.fields(strategy.options):
        for value in each.metadata["tried"]:
            assert getattr(strategy.options(**{each.name: value}), each.name) == value != each.default


@pytest.mark.parametrize("strategy", catalogue.strategies().values(), ids=lambda strategy: strategy.name)
def test_every_number_and_every_choice_among_the_options_has_bounds(strategy):
    types = get_type_hints(strategy.options)
    for each in dataclasses.fields(strategy.options):
        wrong = ["nonsense"] * (get_origin(types[each.name]) is Literal)
        if {int, float} & {types[each.name], *get_args(types[each.name])}:
            is_count = isinstance(each.default, int) and each.default > 0
            wrong = [0 if is_count else -1, -1.5, math.inf, math.nan]
        for value in wrong:
            with pytest.raises(UserError, match=f"--{each.name.replace('_', '-')} {value}: "):
                strategy.options(**{each.name: value})
