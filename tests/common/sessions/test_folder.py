"""common/sessions/folder.py: what was interrupted goes on in its folder, what makes it begin anew, and what doesn't."""

import os
import subprocess
import sys

import pytest
from msgspec import structs

from common.environments import inventory
from common.measurement import machine
from common.paths import ROOT
from common.records import variables
from common.records.header import Machine
from common.sessions import folder as sessions
from common.sessions.folder import order_seed, unfinished_or_new


@pytest.fixture(autouse=True)
def _without_variables(monkeypatch):
    """Nothing that frameworks obey is set."""
    for name in sessions.obeyed_variables():
        monkeypatch.delenv(name)


def begun(results, name, asked_for="as this", **files):
    folder = results / name
    folder.mkdir(parents=True)
    files = {"options.txt": asked_for, "fingerprint.txt": sessions.fingerprint({}), **files}
    for file, text in files.items():
        (folder / file).write_text(text)
    return folder


def found(results):
    return unfinished_or_new(results, "quick", "as this")


def test_the_newest_unfinished_folder_goes_on(tmp_path):
    begun(tmp_path, "20260101T000000-quick")
    newest = begun(tmp_path, "20260102T000000-quick")
    assert found(tmp_path) == newest


def test_what_is_finished_or_of_another_kind_or_was_begun_otherwise_does_not_go_on(tmp_path):
    others = {
        begun(tmp_path, "20260101T000000-quick", finished=""),
        begun(tmp_path, "20260102T000000-full"),
        begun(tmp_path, "20260103T000000-quick", asked_for="as that"),
    }
    (tmp_path / "20260104T000000-quick").mkdir()
    new = found(tmp_path)
    assert new not in others
    assert new.name.endswith("-quick")
    assert (new / "options.txt").read_text() == "as this"


def test_a_new_folder_is_made_where_there_is_none_and_goes_on_from_then(tmp_path):
    new = found(tmp_path / "results")
    assert found(tmp_path / "results") == new


def test_the_order_is_that_with_which_the_folder_was_begun(tmp_path):
    assert order_seed(tmp_path, 5) == 5
    assert order_seed(tmp_path, 6) == order_seed(tmp_path, None) == 5


def test_where_no_order_is_asked_for_every_folder_has_its_own(tmp_path):
    seeds = [order_seed(tmp_path / name, None) for name in "abc"]
    assert len({*seeds}) == 3
    assert [order_seed(tmp_path / name, None) for name in "abc"] == seeds


def test_a_folder_of_other_code_packages_or_variables_does_not_go_on_and_that_is_said(tmp_path, monkeypatch, capsys):
    older = begun(tmp_path, "20260101T000000-quick")
    assert found(tmp_path) == older
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    new = found(tmp_path)
    assert new != older
    said = capsys.readouterr().out
    assert "Frameworks obey variables that are set here: TF_ENABLE_ONEDNN_OPTS=0." in said
    assert f"{older} doesn't go on: code, packages, variables or machine changed since it was begun." in said
    assert found(tmp_path) == new
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    monkeypatch.setattr(sessions, "code_digest", lambda: "other code")
    found(tmp_path)
    assert f"{new} doesn't go on" in capsys.readouterr().out


def test_a_new_folder_keeps_the_variables(tmp_path, monkeypatch):
    assert variables.read(found(tmp_path / "without")) == {}
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    new = found(tmp_path / "with")
    assert variables.read(new) == {"OMP_WAIT_POLICY": "active"}
    assert variables.read(tmp_path) is None
    assert [variables.in_words(each) for each in ({}, variables.read(new), None)] == [
        "none",
        "OMP_WAIT_POLICY=active",
        "unknown: the folder has no variables.txt",
    ]


def test_whatever_a_variable_holds_is_kept_and_shown_on_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LD_PRELOAD", "a\n\udc80")
    new = found(tmp_path)
    assert variables.read(new) == {"LD_PRELOAD": "a\n\udc80"}
    assert capsys.readouterr().out.endswith("LD_PRELOAD='a\\n\\udc80'.\n")
    assert found(tmp_path) == new


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_damaged_variables_are_refused(tmp_path, refusal, text):
    (tmp_path / "variables.txt").write_text(text)
    assert "delete it or run the session again" in refusal(lambda: variables.read(tmp_path))


# What makes it begin anew


@pytest.fixture
def checkout(tmp_path):
    for name in ("common/run.py", "numpy_impl/ddp.py", "numpy_impl/building/flags.h", "pyproject.toml", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("as it was")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["common/run.py", "numpy_impl/ddp.py", "numpy_impl/building/flags.h", "pyproject.toml"]
)
def test_an_edit_of_what_launches_import_changes_the_code(checkout, name):
    before = sessions.code_digest(checkout)
    (checkout / name).write_text("edited")
    assert sessions.code_digest(checkout) != before


def test_a_file_that_is_added_or_renamed_changes_the_code(checkout):
    before = sessions.code_digest(checkout)
    (checkout / "common" / "run.py").rename(checkout / "common" / "loop.py")
    renamed = sessions.code_digest(checkout)
    (checkout / "common" / "more.py").write_text("")
    assert len({before, renamed, sessions.code_digest(checkout)}) == 3


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "common/README.md", "numpy_impl/README.md", "reports/page.py"),
        *("common/__pycache__/run.cpython-311.pyc", "common/.run.py.swp"),
    ],
)
def test_an_edit_of_anything_else_does_not(checkout, name):
    before = sessions.code_digest(checkout)
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text("edited")
    assert sessions.code_digest(checkout) == before


def packages_in(folder):
    """Where an environment's packages are."""
    return folder / "torch" / "lib" / "python3.11" / "site-packages"


def test_another_build_of_the_same_version_counts_where_it_was_built_here(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    package = packages_in(tmp_path) / "horovod-0.28.1.dist-info"
    package.mkdir(parents=True)

    def built(files, is_from_here):
        (package / "RECORD").write_text(files)
        if is_from_here:
            (package / "direct_url.json").write_text("{}")
        return sessions.installed()

    assert built("mpi_lib.so,sha256=a", is_from_here=False) == built("mpi_lib.so,sha256=b", is_from_here=False)
    assert built("mpi_lib.so,sha256=a", is_from_here=True) != built("mpi_lib.so,sha256=b", is_from_here=True)


def test_another_machine_changes_the_fingerprint(monkeypatch):
    facts = Machine(name="here", processor="Some CPU", cores=2, memory_bytes=2**33)
    fingerprints = set()
    for changes in ({}, {"name": "there"}, {"cores": 4}, {"memory_bytes": 2**33 - 4096}):
        monkeypatch.setattr(machine, "host_facts", lambda changes=changes: structs.replace(facts, **changes))
        fingerprints.add(sessions.fingerprint({}))
    assert len(fingerprints) == 3


def test_another_version_of_a_package_changes_what_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    packages = packages_in(tmp_path)
    (packages / "numpy-2.4.6.dist-info").mkdir(parents=True)
    assert "torch: numpy-2.4.6.dist-info" in sessions.installed()
    before = sessions.fingerprint({})
    (packages / "numpy-2.4.6.dist-info").rename(packages / "numpy-2.4.7.dist-info")
    assert sessions.fingerprint({}) != before


def test_variables_that_frameworks_obey_are_kept_and_those_of_launchers_and_of_others_are_not():
    obeyed = {"LD_PRELOAD": "libjemalloc.so", "OMP_WAIT_POLICY": "active", "TF_ENABLE_ONEDNN_OPTS": "0"}
    launchers = {"OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "TF_CONFIG": "{}", "TORCHELASTIC_RUN_ID": "x"}
    others = {"HOME": "/home/me", "MASTER_PORT": "1", "RANK": "0", "OMNI_PATH": "1"}
    assert sessions.obeyed_variables({**others, **obeyed, **launchers}) == obeyed
    assert sessions.fingerprint(obeyed) != sessions.fingerprint(obeyed | {"OMP_WAIT_POLICY": "passive"})


SETTINGS = (
    *("ATEN_CPU_CAPABILITY", "GLIBC_TUNABLES", "GLOO_SOCKET_IFNAME", "GOMP_CPU_AFFINITY", "JAX_ENABLE_X64"),
    *("HOROVOD_FUSION_THRESHOLD", "KMP_BLOCKTIME", "LD_PRELOAD", "MALLOC_ARENA_MAX", "MKL_ENABLE_INSTRUCTIONS"),
    *("NCCL_ALGO", "OMPI_MCA_pml", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_NUM_THREADS", "PJRT_DEVICE"),
    *("PMIX_MCA_gds", "PRTE_MCA_rmaps_default_mapping_policy", "TF_ENABLE_ONEDNN_OPTS", "TORCH_COMPILE_DEBUG"),
    *("KMP_DUPLICATE_LIB_OK", "UCX_TLS", "XLA_FLAGS"),
)

OTHERS = (
    *("PATH", "LANG", "RANK", "MASTER_PORT", "SLURM_PROCID", "TORCHELASTIC_RUN_ID", "TF_CONFIG", "PMIX_RANK"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_MCA_initial_wdir", "OMPI_MCA_num_procs", "PMIX_NAMESPACE", "PMIX_SERVER_URI2"),
    *("PMIX_SERVER_TMPDIR", "PRTE_MCA_ess_base_vpid"),
)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_frameworks_obey_is_kept(name):
    assert sessions.obeyed_variables({name: "0"}) == {name: "0"}


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_launcher_tells_its_processes_is_not_kept(name):
    assert sessions.obeyed_variables({name: "0"}) == {}


@pytest.mark.parametrize("name", ["TF_VAR_password", "TF_TOKEN_app_terraform_io", "TF_HTTP_PASSWORD", "TF_LOG"])
def test_secrets_of_terraform_whose_names_begin_alike_are_not_kept(name):
    assert sessions.obeyed_variables({name: "a secret"}) == {}


def test_programs_that_start_sessions_set_no_variable_that_counts_as_their_users():
    experiments = sorted(path.stem for path in (ROOT / "common" / "laboratory").glob("[!_]*.py"))
    imports = ", ".join(["common.sessions.compare", *(f"common.laboratory.{name}" for name in experiments)])
    code = f"import {imports}, common.sessions.folder, sklearn; print(common.sessions.folder.obeyed_variables())"
    environment = {"PATH": os.environ["PATH"]}
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.stdout == "{}\n", ended.stderr
