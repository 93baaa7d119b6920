"""common/launching/inheritance.py: a launch inherits neither another world nor a proxy, and all else as it is."""

import pytest

from common.declarations import catalogue
from common.launching.inheritance import drop_proxies, inherited, note_what_is_left_out, world_variables

OF_ANOTHER_WORLD = {
    "torchrun": "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK ROLE_RANK ROLE_NAME MASTER_ADDR MASTER_PORT "
    "TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE NODE_RANK",
    "Kubeflow's operators": "PET_NNODES PET_NODE_RANK PET_RDZV_ENDPOINT PET_NPROC_PER_NODE TF_CONFIG",
    "jax.distributed": "JAX_COORDINATOR_ADDRESS JAX_NUM_PROCESSES JAX_PROCESS_ID LOCKSTEP_JAX_PROCESS",
    "horovodrun": "HOROVOD_RANK HOROVOD_SIZE HOROVOD_LOCAL_RANK HOROVOD_CROSS_SIZE HOROVOD_GLOO_RENDEZVOUS_ADDR "
    "HOROVOD_CONTROLLER HOROVOD_HOSTNAME _HOROVOD_SECRET_KEY",
    "mpirun": "OMPI_COMM_WORLD_RANK OMPI_UNIVERSE_SIZE OMPI_MCA_ess_base_vpid OMPI_MCA_orte_hnp_uri PMIX_RANK "
    "PMIX_NAMESPACE PMIX_SERVER_URI41 PRTE_MCA_ess_base_jobid PMI_RANK PMI_SIZE MPI_LOCALRANKID",
    "srun": "SLURM_JOB_ID SLURM_JOBID SLURM_NTASKS SLURM_PROCID SLURM_NODELIST SLURM_STEP_NUM_TASKS SLURM_TASK_PID "
    "SLURM_TASKS_PER_NODE SLURM_CPUS_PER_TASK SLURMD_NODENAME",
}
KEPT = (
    "PATH HOME OMPI_MCA_btl OMPI_MCA_orte_tmpdir_base PMIX_MCA_gds PRTE_MCA_rmaps_default_mapping_policy SLURM_CONF "
    "SLURM_MPI_TYPE HOROVOD_FUSION_THRESHOLD JAX_ENABLE_X64 TF_ENABLE_ONEDNN_OPTS TORCH_LOGS NCCL_DEBUG PETS RANKS"
)
PROXIES = "http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY Ftp_Proxy no_proxy NO_PROXY grpc_proxy"


@pytest.mark.parametrize("launcher", OF_ANOTHER_WORLD)
def test_what_describes_another_world_is_left_out_and_named_in_one_note(launcher, monkeypatch, capsys):
    names = OF_ANOTHER_WORLD[launcher].split()
    for name in world_variables():
        monkeypatch.delenv(name)
    note_what_is_left_out()
    assert capsys.readouterr().out == ""
    for name in names:
        monkeypatch.setenv(name, "10.1.2.3")
    assert not inherited().keys() & {*names}
    note_what_is_left_out()
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("lockstep: note: this launch makes its own world")
    assert line.endswith(f": {', '.join(sorted(names))}.")


def test_every_family_says_how_its_launcher_tells_a_process_its_world():
    assert all(family.world_variables for family in catalogue.families().values())


def test_no_proxy_is_inherited_or_asked_for_the_hosts_of_a_world_and_everything_else_stays_as_it_is():
    kept = dict.fromkeys(KEPT.split(), "as it is")
    variables = kept | dict.fromkeys(PROXIES.split(), "http://10.1.2.3:3128")
    assert inherited(variables | {"WORLD_SIZE": "8"}) == kept
    drop_proxies(variables)
    assert variables == kept
