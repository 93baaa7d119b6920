"""common/sessions/identity.py: what makes an interrupted session begin anew, and what doesn't."""

import os
import subprocess
import sys

import pytest
from msgspec import structs

from common.environments import inventory
from common.measurement import machine
from common.paths import ROOT
from common.records.header import Machine
from common.sessions import identity


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
    before = identity.code_digest(checkout)
    (checkout / name).write_text("edited")
    assert identity.code_digest(checkout) != before


def test_a_file_that_is_added_or_renamed_changes_the_code(checkout):
    before = identity.code_digest(checkout)
    (checkout / "common" / "run.py").rename(checkout / "common" / "loop.py")
    renamed = identity.code_digest(checkout)
    (checkout / "common" / "more.py").write_text("")
    assert len({before, renamed, identity.code_digest(checkout)}) == 3


@pytest.mark.parametrize(
    "name", ["README.md", "reports/page.py", "common/__pycache__/run.cpython-311.pyc", "common/.run.py.swp"]
)
def test_an_edit_of_anything_else_does_not(checkout, name):
    before = identity.code_digest(checkout)
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text("edited")
    assert identity.code_digest(checkout) == before


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
        return identity.installed()

    assert built("mpi_lib.so,sha256=a", is_from_here=False) == built("mpi_lib.so,sha256=b", is_from_here=False)
    assert built("mpi_lib.so,sha256=a", is_from_here=True) != built("mpi_lib.so,sha256=b", is_from_here=True)


def test_another_machine_changes_the_fingerprint(monkeypatch):
    facts = Machine(name="here", processor="Some CPU", cores=2, memory_bytes=2**33)
    fingerprints = set()
    for changes in ({}, {"name": "there"}, {"cores": 4}, {"memory_bytes": 2**33 - 4096}):
        monkeypatch.setattr(machine, "host_facts", lambda changes=changes: structs.replace(facts, **changes))
        fingerprints.add(identity.fingerprint({}))
    assert len(fingerprints) == 3


def test_another_version_of_a_package_changes_what_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    packages = packages_in(tmp_path)
    (packages / "numpy-2.4.6.dist-info").mkdir(parents=True)
    assert "torch: numpy-2.4.6.dist-info" in identity.installed()
    before = identity.fingerprint({})
    (packages / "numpy-2.4.6.dist-info").rename(packages / "numpy-2.4.7.dist-info")
    assert identity.fingerprint({}) != before


def test_variables_that_frameworks_obey_are_kept_and_those_of_launchers_and_of_others_are_not():
    obeyed = {"LD_PRELOAD": "libjemalloc.so", "OMP_WAIT_POLICY": "active", "TF_ENABLE_ONEDNN_OPTS": "0"}
    launchers = {"OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "TF_CONFIG": "{}", "TORCHELASTIC_RUN_ID": "x"}
    others = {"HOME": "/home/me", "MASTER_PORT": "1", "RANK": "0", "OMNI_PATH": "1"}
    assert identity.obeyed_variables({**others, **obeyed, **launchers}) == obeyed
    assert identity.fingerprint(obeyed) != identity.fingerprint(obeyed | {"OMP_WAIT_POLICY": "passive"})


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
    assert identity.obeyed_variables({name: "0"}) == {name: "0"}


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_launcher_tells_its_processes_is_not_kept(name):
    assert identity.obeyed_variables({name: "0"}) == {}


@pytest.mark.parametrize("name", ["TF_VAR_password", "TF_TOKEN_app_terraform_io", "TF_HTTP_PASSWORD", "TF_LOG"])
def test_secrets_of_terraform_whose_names_begin_alike_are_not_kept(name):
    assert identity.obeyed_variables({name: "a secret"}) == {}


def test_programs_that_start_sessions_set_no_variable_that_counts_as_their_users():
    modules = ("compare", "calibrate", "collectives", "exchanges")
    imports = ", ".join(f"common.sessions.{module}" for module in (*modules, "matrix_products"))
    code = f"import {imports}, common.sessions.identity, sklearn; print(common.sessions.identity.obeyed_variables())"
    environment = {"PATH": os.environ["PATH"]}
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.stdout == "{}\n", ended.stderr
