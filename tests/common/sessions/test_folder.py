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
    begun(tmp_path, "20260103T000000-quick", finished="")
    begun(tmp_path, "20260104T000000-full")
    begun(tmp_path, "20260105T000000-quick", asked_for="as that")
    (tmp_path / "20260106T000000-quick").mkdir()
    assert found(tmp_path) == newest


def test_a_new_folder_is_made_where_there_is_none_and_goes_on_from_then(tmp_path):
    new = found(tmp_path / "results")
    assert new.name.endswith("-quick")
    assert found(tmp_path / "results") == new


def test_the_order_is_that_with_which_the_folder_was_begun_and_else_the_one_asked_for_or_its_own(tmp_path):
    assert [order_seed(tmp_path, asked_for) for asked_for in (5, 6, None)] == [5, 5, 5]
    own = [order_seed(tmp_path / name, None) for name in "abcabc"]
    assert len({*own}) == 3
    assert own[:3] == own[3:]


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


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "none"), ("active", "OMP_WAIT_POLICY=active"), ("a\n\udc80", r"OMP_WAIT_POLICY='a\n\udc80'")],
)
def test_a_new_folder_keeps_the_variables_and_they_are_shown_on_one_line(tmp_path, monkeypatch, value, words):
    if value:
        monkeypatch.setenv("OMP_WAIT_POLICY", value)
    new = found(tmp_path)
    assert found(tmp_path) == new
    kept = variables.read(new)
    assert kept == ({"OMP_WAIT_POLICY": value} if value else {})
    assert variables.in_words(kept) == words


def test_a_folder_without_its_variables_says_so_and_damaged_ones_are_refused(tmp_path, refusal):
    assert variables.in_words(variables.read(tmp_path)) == "unknown: the folder has no variables.txt"
    for text in ("", "[]", "{"):
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
    ("names", "count"),
    [
        (("common/run.py", "common/more.py", "numpy_impl/building/flags.h", "pyproject.toml"), True),
        (("README.md", "common/README.md", "numpy_impl/README.md", "reports/page.py"), False),
        (("common/__pycache__/run.cpython-311.pyc", "common/.run.py.swp"), False),
    ],
)
def test_files_that_launches_import_change_the_code_and_no_others_do(checkout, names, count):
    for name in names:
        before = sessions.code_digest(checkout)
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("edited")
        assert (sessions.code_digest(checkout) != before) == count, name


def test_a_file_that_is_renamed_changes_the_code(checkout):
    before = sessions.code_digest(checkout)
    (checkout / "common" / "run.py").rename(checkout / "common" / "loop.py")
    assert sessions.code_digest(checkout) != before


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Where the packages of an environment are."""
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    folder = tmp_path / "torch" / "lib" / "python3.11" / "site-packages"
    folder.mkdir(parents=True)
    return folder


def test_another_build_of_the_same_version_counts_where_it_was_built_here(packages):
    package = packages / "horovod-0.28.1.dist-info"
    package.mkdir()

    def installed(build):
        (package / "RECORD").write_text(f"mpi_lib.so,sha256={build}")
        return sessions.installed()

    assert installed("a") == installed("b")
    (package / "direct_url.json").write_text("{}")
    assert installed("a") != installed("b")


def test_another_version_of_a_package_changes_what_is_installed(packages):
    (packages / "numpy-2.4.6.dist-info").mkdir()
    assert "torch: numpy-2.4.6.dist-info" in sessions.installed()
    before = sessions.fingerprint({})
    (packages / "numpy-2.4.6.dist-info").rename(packages / "numpy-2.4.7.dist-info")
    assert sessions.fingerprint({}) != before


def test_another_machine_changes_the_fingerprint(monkeypatch):
    facts = Machine(name="here", processor="Some CPU", cores=2, memory_bytes=2**33)
    fingerprints = set()
    for changes in ({}, {"name": "there"}, {"cores": 4}, {"memory_bytes": 2**33 - 4096}):
        monkeypatch.setattr(machine, "host_facts", lambda changes=changes: structs.replace(facts, **changes))
        fingerprints.add(sessions.fingerprint({}))
    assert len(fingerprints) == 3


SETTINGS = (
    *("GLIBC_TUNABLES", "GOMP_CPU_AFFINITY", "HOROVOD_FUSION_THRESHOLD", "JAX_ENABLE_X64", "KMP_DUPLICATE_LIB_OK"),
    *("LD_PRELOAD", "NCCL_ALGO", "OMPI_MCA_pml", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_NUM_THREADS"),
    *("PJRT_DEVICE", "PMIX_MCA_gds", "PRTE_MCA_rmaps_default_mapping_policy", "TF_ENABLE_ONEDNN_OPTS", "UCX_TLS"),
    *("ATEN_CPU_CAPABILITY", "TORCH_COMPILE_DEBUG", "XLA_FLAGS"),
)

OF_LAUNCHERS = (
    *("RANK", "MASTER_PORT", "SLURM_PROCID", "TORCHELASTIC_RUN_ID", "TF_CONFIG", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"),
    *("OMPI_MCA_initial_wdir", "PMIX_NAMESPACE", "PMIX_SERVER_TMPDIR", "PRTE_MCA_ess_base_vpid"),
)

# Secrets of Terraform's begin like settings of TensorFlow's.
OF_OTHERS = ("PATH", "HOME", "OMNI_PATH", "TF_VAR_password", "TF_TOKEN_app_terraform_io", "TF_HTTP_PASSWORD", "TF_LOG")


@pytest.mark.parametrize(("names", "are_kept"), [(SETTINGS, True), (OF_LAUNCHERS, False), (OF_OTHERS, False)])
def test_settings_that_frameworks_obey_are_kept_and_what_launchers_or_others_tell_is_not(names, are_kept):
    # One by one: some are told apart by what is beside them.
    kept = [name for name in names if sessions.obeyed_variables({name: "0"}) == {name: "0"}]
    assert kept == ([*names] if are_kept else [])


def test_programs_that_start_sessions_set_no_variable_that_counts_as_their_users():
    experiments = sorted(path.stem for path in (ROOT / "common" / "laboratory").glob("[!_]*.py"))
    imports = ", ".join(["common.sessions.compare", *(f"common.laboratory.{name}" for name in experiments)])
    code = f"import {imports}, common.sessions.folder, sklearn; print(common.sessions.folder.obeyed_variables())"
    environment = {"PATH": os.environ["PATH"]}
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.stdout == "{}\n", ended.stderr
