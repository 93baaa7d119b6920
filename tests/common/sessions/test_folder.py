"""common/sessions/folder.py: what was interrupted goes on in its folder, what makes it begin anew, and what doesn't."""

import os
import re
import subprocess
import sys
from itertools import pairwise

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
    (begun(tmp_path, "20260107T000000-quick") / "options.txt").write_bytes(b"\xff")
    assert found(tmp_path) == newest


def test_the_order_is_that_with_which_the_folder_was_begun_and_else_the_one_asked_for_or_its_own(tmp_path):
    assert [order_seed(tmp_path, asked_for) for asked_for in (5, 6, None)] == [5, 5, 5]
    own = [order_seed(tmp_path / name, None) for name in "abcabc"]
    assert len({*own}) == 3
    assert max(own) > 1000
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


def test_a_new_folder_keeps_the_variables_which_are_shown_on_one_line_and_goes_on_from_then(tmp_path, monkeypatch):
    for value, words in ((None, "none"), ("a\n\udc80", r"OMP_WAIT_POLICY='a\n\udc80'")):
        if value:
            monkeypatch.setenv("OMP_WAIT_POLICY", value)
        new = found(tmp_path / "results" / str(value is None))
        assert re.fullmatch(r"\d{8}T\d{6}-quick", new.name)
        assert found(new.parent) == new
        assert variables.in_words(variables.read(new)) == words


def test_a_folder_without_its_variables_says_so_and_damaged_ones_are_refused(tmp_path, refusal):
    assert variables.in_words(variables.read(tmp_path)) == "unknown: the folder has no variables.txt"
    for text in ("", "[]"):
        (tmp_path / "variables.txt").write_text(text)
        assert "delete it or run the session again" in refusal(lambda: variables.read(tmp_path))


# What makes it begin anew


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (("common/run.py", "common/more.py", "numpy_impl/building/flags.h", "pyproject.toml"), True),
        (("README.md", "common/README.md", "numpy_impl/README.md", "reports/page.py"), False),
        (("common/__pycache__/run.cpython-311.pyc", "common/.run.py.swp"), False),
    ],
)
def test_files_that_launches_import_change_the_code_by_their_text_and_their_name_and_no_others_do(
    tmp_path, names, count
):
    digests = [sessions.code_digest(tmp_path)]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for text in ("new", "edited"):
            path.write_text(text)
            digests.append(sessions.code_digest(tmp_path))
        path.rename(path.with_stem(f"{path.stem}_renamed"))
        digests.append(sessions.code_digest(tmp_path))
    assert {before != after for before, after in pairwise(digests)} == {count}


def test_another_version_and_another_build_that_was_made_here_change_what_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    packages = tmp_path / "torch" / "lib" / "python3.11" / "site-packages"
    horovod, numpy = (packages / f"{name}.dist-info" for name in ("horovod-0.28.1", "numpy-2.4.6"))
    for folder in (horovod, numpy):
        folder.mkdir(parents=True)

    def fingerprint(build):
        (horovod / "RECORD").write_text(f"mpi_lib.so,sha256={build}")
        return sessions.fingerprint({})

    assert "torch: numpy-2.4.6.dist-info" in sessions.installed()
    before = fingerprint("a")
    assert before == fingerprint("b")
    (horovod / "direct_url.json").write_text("{}")
    assert len({before, fingerprint("a"), fingerprint("b")}) == 3
    (horovod / "direct_url.json").unlink()
    numpy.rename(packages / "numpy-2.4.7.dist-info")
    assert fingerprint("a") != before


def test_another_machine_changes_the_fingerprint_and_where_a_session_moves_its_name_does_not(monkeypatch):
    facts = Machine(name="here", processor="Some CPU", cores=2, memory_bytes=2**33)
    fingerprints = {False: set(), True: set()}
    for changes in ({}, {"name": "there"}, {"cores": 4}, {"memory_bytes": 2**33 - 4096}):
        monkeypatch.setattr(machine, "host_facts", lambda changes=changes: structs.replace(facts, **changes))
        for moves, of_moving in fingerprints.items():
            of_moving.add(sessions.fingerprint({}, moves))
    assert {moves: len(each) for moves, each in fingerprints.items()} == {False: 3, True: 2}


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
