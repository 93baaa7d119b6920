"""Edits that keep the user's environment off command lines, and the job's key from hosts that ssh doesn't know.

horovodrun wrote all variables into `/bin/sh -c env NAME=value ...`, which every user of the machine can read, and had
ssh accept any host key. No upstream issue of either was found.
"""

from horovod_impl.building.edits.edit import GLOO_RUN, LAUNCH, Edit

REMOTE = "horovod/runner/util/remote.py"

DISCLOSURE = (
    Edit(
        GLOO_RUN,
        """        return '{shell} {horovod_env} {env} {run_command}' .format(
            shell='env',
            horovod_env=horovod_rendez_env,
            env=' '.join(['%s=%s' % (key, quote(value)) for key, value in env.items()
                          if env_util.is_exportable(key)]),
            run_command=run_command)
""",
        """        return '{shell} {horovod_env} {run_command}' .format(
            shell='env',
            horovod_env=horovod_rendez_env,
            run_command=run_command)
""",
        "a command line has the worker's place in the job alone",
    ),
    Edit(GLOO_RUN, "def _exec_command_fn(settings):", "def _exec_command_fn(settings, env):", "see the next edits"),
    Edit(
        GLOO_RUN,
        "exec_command = _exec_command_fn(settings)\n",
        "exec_command = _exec_command_fn(settings, env)\n",
        "see the next edits",
        times=2,
    ),
    Edit(
        GLOO_RUN,
        """        index = slot_info.rank
        host_name = slot_info.hostname

        host_address""",
        """        index = slot_info.rank
        host_name = slot_info.hostname
        worker_env = {**os.environ, **env, 'PYTHONUNBUFFERED': '1'}

        host_address""",
        "a local worker inherits the environment",
    ),
    Edit(
        GLOO_RUN,
        "        if host_address not in local_addresses:\n            local_command",
        "        if host_address not in local_addresses:\n"
        "            exported = {k: v for k, v in worker_env.items() if env_util.is_exportable(k)}\n"
        "            worker_env[request_signature.ENVIRONMENT_VARIABLE] = request_signature.packed(exported)\n"
        "            local_command",
        "a worker on another machine gets the environment by ssh's standard input",
    ),
    Edit(
        GLOO_RUN,
        "exit_code = safe_shell_exec.execute(command,\n                                                index=index,",
        "exit_code = safe_shell_exec.execute(command,\n"
        "                                                env=worker_env,\n"
        "                                                index=index,",
        "the environment goes by a pipe to the process that starts the worker",
    ),
    Edit(
        GLOO_RUN,
        "import env as env_util, safe_shell_exec\n",
        "import env as env_util, request_signature, safe_shell_exec\n",
        "see the edit before the last",
    ),
    Edit(
        REMOTE,
        "'ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no'",
        "'ssh -o BatchMode=yes'",
        "the job's key goes to hosts whose keys the user has accepted, and to no impostor",
    ),
    Edit(
        LAUNCH,
        "raise RuntimeError('could not connect to some hosts via ssh')",
        "raise RuntimeError('could not connect to some hosts via ssh, for the reasons above: make `ssh HOST` work '\n"
        "                               'without any question, and accept an unknown host key by it once')",
        "a host whose key isn't known was accepted before, so whoever meets the refusal is told the remedy",
    ),
)
