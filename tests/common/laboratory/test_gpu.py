"""common/laboratory/gpu.py: what it launches, in which order; and as a user starts it, with a framework that hangs."""

import sys

import pytest

from common.declarations.strategy import has_exchange, other_maths
from common.errors import NotInstalledError
from common.laboratory import gpu
from common.laboratory.gpu import Scope
from common.records.files import read_records
from common.records.training import Record
from common.sessions.session import Stage
from tests.conftest import run_command


@pytest.fixture
def stages(monkeypatch):
    """All stages of a GPU's session by their names, with every framework installed; of the rounds the first."""
    monkeypatch.setattr(gpu, "python_for", lambda strategy: None)
    found = gpu.all_stages(Scope(repetitions=1), gpu.installed())
    return {stage.name: stage.launches for stage in found}


def test_every_strategy_is_certified_on_the_gpu_those_of_the_quick_comparison_first_and_shared_where_it_can_be(stages):
    launches = stages["certificate"]
    quick = [launch.strategy.may_be_quick for launch in launches]
    assert quick == sorted(quick, reverse=True)
    assert {launch.strategy.name for launch in launches if launch.workers == 1} == {*gpu.catalogue.strategies()}
    assert {launch.task.device for launch in launches} == {"gpu"}
    shared = [launch for launch in launches if launch.workers == 2]
    assert {launch.options.backend for launch in shared} == {"gloo"}
    assert {"torch_ddp", "torch_zero", "torch_fsdp"} <= {launch.strategy.name for launch in shared}


def test_every_precision_and_every_compression_of_the_quick_strategies_is_tried(stages):
    tried = {(launch.strategy.name, *other_maths(launch.options)) for launch in stages["precision"]}
    assert {("torch_single", "precision"), ("torch_ddp", "gradient_hook"), ("torch_ddp", "precision")} <= tried
    assert all(other_maths(launch.options) for launch in stages["precision"])


def test_rounds_have_the_baselines_alone_each_with_every_value_of_its_options(stages):
    launches = stages["round"]
    assert {(launch.strategy.most_workers, has_exchange(launch.options)) for launch in launches} == {(1, True)}
    assert len({launch.name for launch in launches}) == len(launches)
    of_torch = [launch for launch in launches if launch.strategy.name == "torch_single"]
    assert {launch.options.execution for launch in of_torch} == {"eager", "compiled", "graphed"}
    large = [launch for launch in of_torch if launch.task.batch == 8192]
    assert {launch.options.precision for launch in large} == {"float32", "tf32", "bf16"}


def test_ceilings_have_a_layer_that_fills_a_gpu(stages):
    stages_on_cpu = gpu.all_stages(Scope(device="cpu"), [gpu.catalogue.find("torch_single")])
    on_cpu = next(stage.launches for stage in stages_on_cpu if stage.name == "ceiling")
    on_gpu, on_cpu = ({probe.task.dimensions for probe in probes} for probes in (stages["ceiling"], on_cpu))
    assert (8192, 8192) in on_gpu
    assert (8192, 8192) not in on_cpu


def test_what_is_not_installed_is_left_out_and_named_once(monkeypatch, capsys):
    def python_for(strategy):
        if strategy.framework == "torch":
            return
        raise NotInstalledError(f"{strategy.family.environment} isn't installed.")

    monkeypatch.setattr(gpu, "python_for", python_for)
    assert {strategy.framework for strategy in gpu.installed()} == {"torch"}
    printed = capsys.readouterr().out.splitlines()
    assert sorted(printed) == [f"Left out: {name} isn't installed." for name in ("horovod", "jax", "tensorflow")]


def test_nothing_begins_after_the_time_is_over(monkeypatch):
    moments = iter([1.0, 2.0, 3.0])
    monkeypatch.setattr(gpu.time, "monotonic", lambda: next(moments))
    stages = [Stage("a", "a", ["first", "second"]), Stage("b", "b", ["third"])]
    assert [stage.launches for stage in gpu.in_time(stages, ends_at=2.5)] == [["first"], ["second"]]


def test_without_a_gpu_it_says_how_to_try_it_on_the_cpu(monkeypatch, refusal, tmp_path):
    monkeypatch.setattr(gpu.machine, "gpu_names", list)
    assert refusal(lambda: gpu.refuse(Scope(), tmp_path)).endswith("try the same launches on the CPU by --device cpu.")


@pytest.mark.grid
def test_a_framework_that_hangs_takes_no_more_than_the_time_of_its_launches(tmp_path):
    (tmp_path / "torch.py").write_text("import time\ntime.sleep(3600)\n", encoding="utf-8")
    limits = ["--device", "cpu", "--minutes", "0.3", "--launch-seconds", "4"]
    places = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "gpu.pdf")]
    command = [sys.executable, "-m", "common.laboratory.gpu", *limits, *places]
    status, output = run_command(command, PYTHONPATH=str(tmp_path))
    assert status == 1, output
    [folder] = (tmp_path / "results").iterdir()
    records = read_records(folder, Record)
    assert {record.status for record in records.values()} == {"failed"}, output
    assert all("4 s" in record.reason for record in records.values()), output
    # The launches have 70 % of 18 s, and the last may begin a second before their end.
    assert 1 <= len(records) <= 3
    assert "Time didn't suffice for bare loops." in output
    assert (tmp_path / "gpu.pdf").stat().st_size
