"""The signature of the requests to Horovod's rendezvous and key-value servers; build.py adds this file to Horovod.

Published, these servers answer whoever reaches them, and some of what they are sent is unpickled (CVE-2024-10190,
CVE-2026-31234). Here horovodrun draws a key for each job, which its workers find in their environment, never on a
command line, since every user of a machine can read those. A request is signed over method, path and body:

    Horovod-Body: SHA-256 of the body, in hexadecimal
    Horovod-Signature: HMAC-SHA256, by the key, of "method path Horovod-Body", in hexadecimal

so that the server refuses a stranger before it reads the body. Whoever can listen to the network can send a signed
request once more as long as the job lasts: a replay can only restore a value that the job set earlier.
request_signature.h is the same for Horovod's C++.
"""

import base64
import copy
import hashlib
import hmac
import os
import secrets
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.request import Request

# Horovod's own name, which it never exports with the user's variables.
KEY_VARIABLE = "_HOROVOD_SECRET_KEY"
BODY_HEADER = "Horovod-Body"
SIGNATURE_HEADER = "Horovod-Signature"

# What a worker on another machine is to find in its environment, as `packed` returns it; unset for other commands.
ENVIRONMENT_VARIABLE = "_HOROVOD_WORKER_ENVIRONMENT"

# Bash lets nobody set these, of which a user may export some (bash(1), SHELL VARIABLES).
READ_ONLY_VARIABLES = {"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"}

# Around an ssh command: printf and read are the shells' own, so the key and the environment travel by standard input
# and are on no command line.
SEND_KEY = f'printf \'%s\\n\' "${KEY_VARIABLE}" "${ENVIRONMENT_VARIABLE}" |'
RECEIVE_KEY = f"'read -r {KEY_VARIABLE}; export {KEY_VARIABLE}; eval \"$(base64 -d)\";'"


def packed(variables: Mapping[str, str]) -> str:
    """Return one line that `base64 -d` turns into a shell's commands that export these variables.

    Names that aren't a shell's, or that a shell keeps to itself, are left out: such a command would end the shell.
    """
    names = [name for name in variables if name.isascii() and name.isidentifier() and name not in READ_ONLY_VARIABLES]
    commands = "".join(f"export {name}={shlex.quote(variables[name])}\n" for name in names)
    return base64.b64encode(os.fsencode(commands)).decode()


def make_job_key() -> bytes:
    """Draw the key of a new job, put it into the environment, which workers inherit, and return it."""
    os.environ[KEY_VARIABLE] = secrets.token_hex(32)
    return job_key()


def job_key() -> bytes:
    """Return the job's key, the characters of the variable as they are; raise RuntimeError if there is none."""
    key = os.environ.get(KEY_VARIABLE)
    if not key:
        raise RuntimeError(
            f"{KEY_VARIABLE} is not in the environment, so requests to horovodrun can't be signed: start this process "
            "with horovodrun, or with the key of the job that it is to join."
        )
    return key.encode()


def without_key(settings: Any) -> Any:  # noqa: ANN401
    """Return a copy of horovodrun's settings that may be on a command line."""
    public = copy.copy(settings)
    public.key = None
    return public


def body_digest(body: bytes) -> str:
    """Return the SHA-256 (FIPS 180-4) of the body, in hexadecimal."""
    return hashlib.sha256(body).hexdigest()


def signature(key: bytes, method: str, path: str, digest: str) -> str:
    """Return the HMAC-SHA256 (RFC 2104) of method, path and the body's digest by the key, in hexadecimal."""
    return hmac.new(key, f"{method} {path} {digest}".encode(), hashlib.sha256).hexdigest()


def sign(request: Request) -> None:
    """Add the two headers to the request, whose method and body are set."""
    digest = body_digest(request.data or b"")
    request.add_header(BODY_HEADER, digest)
    request.add_header(SIGNATURE_HEADER, signature(job_key(), request.get_method(), request.selector, digest))


def is_signed(method: str, path: str, headers: Mapping[str, str]) -> bool:
    """Tell whether the request is signed with the job's key; whether its body is the signed one, has_body tells."""
    expected = signature(job_key(), method, path, headers.get(BODY_HEADER, ""))
    return hmac.compare_digest(expected.encode(), headers.get(SIGNATURE_HEADER, "").encode())


def has_body(headers: Mapping[str, str], body: bytes) -> bool:
    """Tell whether the body is the one that the headers, which is_signed has found signed, stand for."""
    return hmac.compare_digest(body_digest(body).encode(), headers.get(BODY_HEADER, "").encode())
