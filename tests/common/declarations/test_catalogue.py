"""common/declarations/catalogue.py: every folder's declarations are found, in order, and one that can't be meant is
one line."""

import dataclasses
import importlib
import subprocess
import sys
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from common.declarations import catalogue
from common.errors import UserError
from common.paths import ROOT

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


def test_a_folder_stands_behind_those_of_its_bases(folders):
    folders(
        a_impl='A = declare("a_impl/one.py", name="a", base="d_alone")',
        b_impl='B = declare("b_impl/one.py", name="b_alone")',
        c_impl='C = declare("c_impl/one.py", name="c", base="b_alone")',
        d_impl='D = declare("d_impl/one.py", name="d_alone")',
    )
    assert list(catalogue.strategies()) == ["b_alone", "d_alone", "a", "c"]


REFUSED = {
    "an unknown launcher": (
        {"a_impl": 'A = declare("a_impl/one.py", name="a", launcher="slurmrun")'},
        "a_impl/strategies.py: a has the unknown launcher 'slurmrun': use common.declarations.strategy.PROCESS, or a "
        "Launcher that the folder declares.",
    ),
    "a name of two folders": (
        {"a_impl": 'A = declare("a_impl/one.py", name="same")', "b_impl": 'B = declare("b_impl/one.py", name="same")'},
        "b_impl/strategies.py and a_impl/strategies.py both declare same: give one of them another name.",
    ),
    "a script that is missing": (
        {"a_impl": 'A = declare("a_impl/two.py", name="a")'},
        "a_impl/strategies.py: a has the script a_impl/two.py, which doesn't exist: write it, or correct its name.",
    ),
    "a script that is a folder": (
        {"a_impl": 'A = declare("a_impl", name="a")'},
        "a_impl/strategies.py: a has the script a_impl, which doesn't exist: write it, or correct its name.",
    ),
    "a base that nobody declares": (
        {"a_impl": 'A = declare("a_impl/one.py", name="a", base="b")'},
        "a_impl/strategies.py: a refers to b, which no folder declares: correct its name.",
    ),
    "a relation that nobody declares": (
        {"a_impl": 'A = declare("a_impl/one.py", name="a", compared_with={"convenience of": "b"})'},
        "a_impl/strategies.py: a refers to b, which no folder declares: correct its name.",
    ),
}


@pytest.mark.parametrize(("declarations", "said"), REFUSED.values(), ids=REFUSED)
def test_a_declaration_that_cannot_be_meant_is_one_line_that_names_its_place(folders, refusal, declarations, said):
    folders(**declarations)
    assert refusal(catalogue.strategies) == said


def test_a_family_is_known_by_its_environment(folders):
    folders(
        a_impl='A = declare("a_impl/one.py", name="a", base="b")\nA2 = declare("a_impl/one.py", name="a2", base="b")',
        b_impl='import dataclasses\nOTHER = dataclasses.replace(FAMILY, environment="f")\n'
        'B = declare("b_impl/one.py", name="b", family=OTHER)',
    )
    known = catalogue.strategies()
    assert list(catalogue.families().items()) == [("f", known["b"].family), ("e", known["a"].family)]


# The declarations that there are


def test_the_catalogue_needs_no_installed_package():
    source = "from common.declarations.catalogue import strategies; print(*strategies())"
    found = subprocess.run(
        [sys.executable, "-S", "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.split() == list(catalogue.strategies())


def test_speed_up_is_over_what_distributes_nothing_and_every_value_is_one_that_options_take():
    known = catalogue.strategies()
    for strategy in known.values():
        assert (strategy.base is None) == (strategy.most_workers == 1)
        assert strategy.base is None or known[strategy.base].base is None
    for strategy in catalogue.strategies().values():
        for values in (*strategy.variants, *strategy.over_links, strategy.synchronous_with):
            options = strategy.options(**values)
            assert dataclasses.asdict(options).items() >= dict(values).items()
        assert strategy.is_synchronous(strategy.options(**strategy.synchronous_with))
    for strategy in catalogue.strategies().values():
        for each in dataclasses.fields(strategy.options):
            for value in each.metadata["tried"]:
                assert getattr(strategy.options(**{each.name: value}), each.name) == value != each.default


def test_every_number_and_every_choice_among_the_options_has_bounds():
    for strategy in catalogue.strategies().values():
        types = get_type_hints(strategy.options)
        for each in dataclasses.fields(strategy.options):
            is_count = isinstance(each.default, int) and each.default > 0
            wrong = (
                [0 if is_count else -1, -1.5, float("nan")]
                if {int, float} & {types[each.name], *get_args(types[each.name])}
                else []
            )
            for value in wrong or ["nonsense"] * (get_origin(types[each.name]) is Literal):
                with pytest.raises(UserError, match=f"--{each.name.replace('_', '-')} {value}: "):
                    strategy.options(**{each.name: value})


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_formula_has_words_and_no_negative_bytes(workers):
    for strategy in catalogue.strategies().values():
        for values in ({}, *strategy.variants, *strategy.over_links):
            traffic = strategy.traffic(1000, workers, strategy.options(**values))
            assert traffic.formula
            assert traffic.bytes_per_step is None or traffic.bytes_per_step >= 0
