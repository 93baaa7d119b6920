"""What no experiment of the laboratory can be asked: it is refused in one line, before anything is started."""

import importlib
import re

import pytest

from common.launching.planned import Hosts

TWO_HOSTS = Hosts(2, slots=2, cores=1, bandwidths_bits_per_second=(1e8,))
TWO_LINKS = Hosts(2, slots=2, cores=1, bandwidths_bits_per_second=(1e7, 1e8))


@pytest.mark.parametrize(
    ("experiment", "values", "said"),
    [
        ("calibrate", {"repetitions": 9}, "^--repetitions 9: give 10 or more"),
        ("calibrate", {"strategy": "numpy_alnoe"}, "^There is no strategy named 'numpy_alnoe'"),
        ("collectives", {"libraries": ("glue",)}, "no library of collectives named 'glue'"),
        ("collectives", {"workers": (1,)}, "--workers 1: give 2 or more"),
        ("collectives", {"sizes": ("8",), "min_bytes": "8"}, "--sizes and --min-bytes"),
        ("convergence", {"strategies": ("torch_single",)}, "torch_single declares no way to send fewer bytes"),
        ("convergence", {"workers": 1}, "one sends nothing"),
        ("exchanges", {"strategies": ("torch_single",)}, "distributes nothing"),
        ("exchanges", {"strategies": ("torch_dpp",)}, "torch_dpp"),
        ("exchanges", {"preset": "mnits"}, "no preset named 'mnits'"),
        ("exchanges", {"workers": 1}, "--workers 1"),
        ("exchanges", {"iterations": 0}, "--iterations 0: give a whole number above 0."),
        ("faults", {"strategies": ("tf_mirrored",)}, "tf_mirrored has one process, with which all is lost"),
        ("faults", {"strategies": ("nobody",)}, "nobody"),
        ("faults", {"faults": ("burn:rank=1",)}, "begin with one of"),
        ("faults", {"workers": 1}, "--workers 1: give 2 or more"),
        ("faults", {"spread": TWO_HOSTS, "workers": 3}, "--workers 3 can't be alike on 2 hosts: give a multiple"),
        ("faults", {"spread": TWO_LINKS}, "faults take one at a time"),
        ("loader_workers", {"strategy": "tf_mirrored"}, "tf_mirrored has no --loader-workers"),
        ("loader_workers", {"loader_workers": (0,)}, "whole numbers above 0"),
        ("loader_workers", {"preset": "imagenet"}, "imagenet"),
        ("matrix_products", {"workers": 3}, "3 workers can't share 64 rows evenly: give --sizes that 3 divides.$"),
        ("matrix_products", {"naive_sizes": ()}, "give one or more, all of them whole numbers from 1 to 8192.$"),
        ("predict", {"strategies": ("tf_mirrored",)}, "tf_mirrored declares no graph"),
        ("predict", {"workers": (0,)}, "whole numbers above 0"),
        ("predict", {"workers": (8, 64), "over_hosts": (2,)}, "as many numbers as --workers"),
        ("predict", {"workers": (8,), "over_hosts": (3,)}, "--workers 8 can't be alike on 3 hosts"),
        ("predict", {"workers": (3,), "scaling": "strong"}, "doesn't divide by 3 workers"),
        ("predict", {"bandwidth": "25"}, "25"),
        ("predict", {"latency": "10"}, "10"),
        ("predict", {"preset": "imagenet"}, "imagenet"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(experiment, values, said, refusal):
    scope = importlib.import_module(f"common.laboratory.{experiment}").Scope
    assert re.search(said, refusal(lambda: scope(**values)))
