"""common/launching/programs.py: what each kind of program refuses before anything starts.

What a strategy and a way to multiply refuse, the tests of the launcher and of the session of matrix products say.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from common.declarations import catalogue
from common.launching import launch
from common.launching.launch import prepare
from common.measurement import machine
from common.records.files import write_record
from common.records.trace import Message, Trace


@pytest.fixture
def path(tmp_path):
    """A file with the messages of a step."""
    found = tmp_path / "trace"
    messages = [Message(collective="all_reduce", size_bytes=12)]
    trace = Trace(strategy="mine", workers=3, source="x", library="gloo", data_type="float64", messages=messages)
    write_record(found, trace)
    return found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("gloo --data-type float64", "has float64 of 3 ranks: give --workers 3 --data-type float64."),
        ("gloo --workers 3", "has float64 of 3 ranks: give --workers 3 --data-type float64."),
        ("mpi --workers 3 --data-type float64", "is what gloo carried: replay it by gloo."),
    ],
)
def test_messages_are_replayed_as_they_were_sent_and_otherwise_refused_with_what_to_give(
    path, words, said, refusal, monkeypatch
):
    assert refusal(lambda: prepare([*words.split(), "--messages", str(path)])) == f"{path} {said}"
    monkeypatch.setattr(launch, "python_for", lambda library: Path(sys.executable))
    options = ["--messages", str(path), "--data-type", "float64", "--workers", "3"]
    assert prepare(["gloo", *options])[2][-8:] == [*options, "--workers", "3"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("horovod_gloo --data-type uint8", "can't send uint8: give --data-type one of "),
        ("tensorflow --collectives send_receive", "lacks what is asked for: "),
        ("nccl", "joins GPUs, and this machine has 0 for 2 ranks."),
        ("torch_ddp --inject kill:rank=2,step=9", "torch_ddp has 2 workers, which are rank 0 to 1; name a rank"),
        ("tf_mirrored --inject kill:rank=1,step=9", "tf_mirrored has one process, which is rank 0; name a rank"),
        ("torch_ddp --inject server:index=0,step=9", "torch_ddp has no parameter server 0; name one that is there."),
        ("tf_parameter_server --inject server:index=7,step=9", "has no parameter server 7; name one that is there."),
        ("torch_ddp --inject host:name=host2,step=9", "one machine; `nox -s faults -- --virtual-hosts 2` makes hosts"),
    ],
)
def test_what_a_library_lacks_and_a_fault_of_what_is_not_there_are_refused(words, said, refusal, monkeypatch):
    monkeypatch.setattr(machine, "gpu_names", list)
    assert said in refusal(lambda: prepare([*words.split(), "--workers", "2"]))


def test_gpus_have_to_be_there_for_every_worker_that_does_not_share_one(refusal, monkeypatch):
    words = ["torch_ddp", "--workers", "2", "--device", "gpu"]
    monkeypatch.setattr(machine, "gpu_names", lambda: ["a GPU"])
    assert "this machine has 1 GPUs for 2 workers: leave --device out" in refusal(lambda: prepare(words))
    prepare([*words, "--backend", "gloo"])
    monkeypatch.setattr(machine, "gpu_names", lambda: ["a GPU"] * 2)
    prepare(words)


@pytest.mark.parametrize(
    ("program", "needed"),
    [
        ("torch_sync_sgd --backend mpi --workers 4", "37.1 MiB"),
        ("horovod_torch --backend mpi --workers 4", "36.8 MiB"),
        ("mpi --workers 2", "26.8 MiB"),
        ("torch_ddp --loader-workers 2 --workers 2", "0.3 MiB"),
        ("torch_ddp --loader-workers 1 --preset wide --workers 2", "32.1 MiB"),
        ("torch_ddp --workers 2", None),
        ("torch_sync_sgd --backend mpi --workers 1", None),
    ],
)
def test_too_little_shared_memory_is_refused_where_processes_share_any(program, needed, refusal, monkeypatch):
    def has(mebibytes):
        monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=mebibytes * 2**20))

    has(0.125)
    if needed:
        said = refusal(lambda: prepare(program.split()))
        assert f"workers need {needed} of shared memory, and /dev/shm has 0.1 MiB free" in said
    # As containers have, and next to nothing for the others.
    has(64 if needed else 1)
    prepare(program.split())


def test_programs_of_any_kind_have_names_of_their_own(catalogue_of, declare, refusal, monkeypatch):
    declared = {*catalogue.strategies(), *catalogue.libraries(), *catalogue.ways()}
    probed = [family for family in catalogue.families().values() if family.probe]
    assert len(catalogue.programs()) == len(declared) + len(probed)
    library = catalogue.find_library("gloo")
    catalogue_of(declare("gloo"))
    monkeypatch.setattr(catalogue, "libraries", lambda: {"gloo": library})
    said = f"{library.script} and numpy_impl/threads.py are both called gloo: give one of them another name."
    assert refusal(catalogue.programs) == said
