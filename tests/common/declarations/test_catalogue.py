"""common/declarations/catalogue.py: every folder's declarations are found, in order, and one that can't be meant is
one line."""

import dataclasses
import importlib
import subprocess
import sys

import pytest

from common.declarations import catalogue
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


def test_strategies_come_in_the_order_of_their_declarations(folders):
    folders(
        made_impl="""
LATER = declare("made_impl/one.py", name="z_first")
EARLIER = declare("made_impl/one.py", name="a_second", base="z_first", compared_with={"like": "m_third"})
LAST = declare("made_impl/one.py", name="m_third", base="z_first")
NO_STRATEGY = "made_impl/one.py"
"""
    )
    known = catalogue.strategies()
    assert list(known) == [strategy.name for strategy in known.values()] == ["z_first", "a_second", "m_third"]


def test_a_folder_stands_behind_those_of_its_bases(folders):
    folders(
        a_impl='A = declare("a_impl/one.py", name="a", base="d_alone")',
        b_impl='B = declare("b_impl/one.py", name="b_alone")',
        c_impl='C = declare("c_impl/one.py", name="c", base="b_alone")',
        d_impl='D = declare("d_impl/one.py", name="d_alone")',
    )
    assert list(catalogue.strategies()) == ["b_alone", "d_alone", "a", "c"]


def test_a_folder_without_declarations_and_one_of_another_name_are_passed_over(folders, tmp_path):
    folders(
        made_impl='ONE = declare("made_impl/one.py", name="one")', other='TWO = declare("other/one.py", name="two")'
    )
    (tmp_path / "empty_impl").mkdir()
    assert list(catalogue.strategies()) == ["one"]


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


def test_a_strategy_is_found_by_its_name_and_another_name_is_refused_with_those_that_exist(folders, refusal):
    folders(
        made_impl="""
ONE = declare("made_impl/one.py", name="one")
TWO = declare("made_impl/one.py", name="two", base="one")
"""
    )
    assert catalogue.find("two") is catalogue.strategies()["two"]
    assert refusal(lambda: catalogue.find("tow")) == "There is no strategy named 'tow': choose one of one, two."


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


def test_every_script_that_is_a_strategys_is_declared_once():
    scripts = [strategy.script for strategy in catalogue.strategies().values()]
    assert len(set(scripts)) == len(scripts)


def test_speed_up_is_always_over_what_distributes_nothing():
    known = catalogue.strategies()
    for strategy in known.values():
        assert (strategy.base is None) == (strategy.most_workers == 1)
        assert strategy.base is None or known[strategy.base].base is None


def test_every_variant_and_every_synchronous_way_is_one_that_the_options_take():
    for strategy in catalogue.strategies().values():
        for values in (*strategy.variants, *strategy.over_links, strategy.synchronous_with):
            options = strategy.options(**values)
            assert dataclasses.asdict(options).items() >= dict(values).items()
        assert strategy.is_synchronous(strategy.options(**strategy.synchronous_with))


def test_every_value_that_an_option_is_tried_with_is_another_one_that_it_takes():
    for strategy in catalogue.strategies().values():
        for each in dataclasses.fields(strategy.options):
            for value in each.metadata["tried"]:
                assert getattr(strategy.options(**{each.name: value}), each.name) == value != each.default


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_formula_has_words_and_no_negative_bytes(workers):
    for strategy in catalogue.strategies().values():
        for values in ({}, *strategy.variants, *strategy.over_links):
            traffic = strategy.traffic(1000, workers, strategy.options(**values))
            assert traffic.formula
            assert traffic.bytes_per_step is None or traffic.bytes_per_step >= 0
