"""Build Horovod for torch and TensorFlow, and install it beside them.

    python horovod_impl/build.py

Run it with the Python of an environment that holds the `horovod` dependency group. Horovod is published as source
only, and its last release is older than today's torch and TensorFlow: this downloads that release, makes the few
edits listed in EDITS, compiles it with Gloo (and with MPI, if an MPI C++ compiler is on PATH), and keeps the wheel
below ~/.cache/lockstep/horovod, so that the next environment with the same versions has it in seconds.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VERSION = "0.28.1"
ARCHIVE_SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"

# Horovod's own setup.py fetches what is missing of these over the network, in versions of its choice.
BUILD_REQUIREMENTS = ("pip", "setuptools", "wheel", "packaging", "cloudpickle", "psutil", "pyyaml", "cffi")


class BuildError(Exception):
    """Something that the user can put right; the message is one sentence with cause and remedy."""


@dataclass(frozen=True)
class Edit:
    """One replacement in Horovod's source: `old`, which must occur exactly once in `path`, becomes `new`."""

    path: str
    old: str
    new: str
    why: str


STANDARD = "set(CMAKE_CXX_STANDARD %d)"
BECOMES_O3 = 'string(REPLACE "%s" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO'
XLA = 'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n'
TENSORFLOW = "horovod/tensorflow/CMakeLists.txt"
HTTP_SERVER = "horovod/runner/http/http_server.py"
HTTP_CLIENT = "horovod/runner/http/http_client.py"
HTTP_REQUEST = "third_party/HTTPRequest/include/HTTPRequest.hpp"
HTTP_STORE = "horovod/common/gloo/http_store.cc"
LAUNCH = "horovod/runner/launch.py"
GLOO_RUN = "horovod/runner/gloo_run.py"
DRIVER_SERVICE = "horovod/runner/driver/driver_service.py"
TASK_FUNCTION = "horovod/runner/task_fn.py"
REMOTE = "horovod/runner/util/remote.py"
FIND_PORT = "horovod/runner/util/network.py"
SERVICES = "horovod/runner/common/util/network.py"
EDITS = (
    Edit("CMakeLists.txt", STANDARD % 14, STANDARD % 20, "Gloo is compiled like the code that includes it"),
    Edit("horovod/torch/CMakeLists.txt", STANDARD % 14, STANDARD % 20, "torch refuses C++14 and builds as C++20"),
    Edit(TENSORFLOW, STANDARD % 17, STANDARD % 20, "Horovod's core, which is in both libraries, is C++20"),
    Edit(TENSORFLOW, XLA, "", "the TensorFlow wheel lacks a header that the XLA operations include"),
    Edit(TENSORFLOW, "Tensorflow_CXX17 TRUE", "Tensorflow_CXX17 FALSE", "one copy of Gloo, now C++20, serves both"),
    Edit("CMakeLists.txt", BECOMES_O3 % "-O2", BECOMES_O3 % "-O2 -g", "debug information is a quarter of the work"),
    Edit(
        "horovod/runner/mpi_run.py",
        "['-bind-to none', '-map-by slot']",
        "['--bind-to none', '--map-by slot']",
        "Open MPI 5 takes a long option that has one dash apart",
    ),
    Edit(
        "horovod/common/util.py",
        "EXTENSIONS = ['tensorflow', 'torch', 'mxnet']",
        "EXTENSIONS = ['torch', 'tensorflow', 'mxnet']",
        "horovodrun loads the first of these to ask what was built, and torch loads in half the time",
    ),
    Edit(
        "CMakeLists.txt",
        "    find_package(MPI ${MPI_REQUIRED})\n    if(",
        '    find_package(MPI ${MPI_REQUIRED})\n    set(CMAKE_BUILD_RPATH "$ORIGIN/../../../..")\n    if(',
        "an MPI that is installed in the environment, in lib, is found from the wheel wherever the environment is",
    ),
    Edit(
        "horovod/tensorflow/mpi_ops.cc",
        'REGISTER_OP("HorovodJoin")\n    .Output("output: int32")\n    .SetShapeFn',
        'REGISTER_OP("HorovodJoin")\n    .Output("output: int32")\n    .SetIsStateful()\n    .SetShapeFn',
        "TensorFlow runs an operation that has neither state nor input once, so only the first join waited for anybody",
    ),
    # What follows keeps strangers off the servers that horovodrun starts; request_signature.py says how.
    Edit(
        HTTP_SERVER,
        "RequestHandler\n\nfrom horovod.runner.util",
        "RequestHandler\n\nfrom horovod.runner.common.util import request_signature\nfrom horovod.runner.util",
        "the servers ask it whether a request is signed",
    ),
    Edit(HTTP_SERVER, "TIMEOUT = 408\nOK", "TIMEOUT = 408\nFORBIDDEN = 403\nOK", "the answer to an unsigned request"),
    Edit(
        HTTP_SERVER,
        """    timeout = SINGLE_REQUEST_TIMEOUT

    # Override GET handler
""",
        """    timeout = SINGLE_REQUEST_TIMEOUT

    # Requests of every method pass here, before their bodies are read
    def parse_request(self):
        if not super().parse_request():
            return False
        if not request_signature.is_signed(self.command, self.path, self.headers):
            self.send_status_code(FORBIDDEN)
            return False
        return True

    # Override GET handler
""",
        "only the job's own processes may ask the servers anything",
    ),
    Edit(
        HTTP_SERVER,
        """(TIMEOUT)
            return

        self._put_value""",
        """(TIMEOUT)
            return

        if not request_signature.has_body(self.headers, value):
            self.send_status_code(FORBIDDEN)
            return

        self._put_value""",
        "what is stored, and may be unpickled, is what the sender signed",
    ),
    Edit(
        HTTP_SERVER,
        """def start(self, handler_cls=RendezvousHandler):
        self._httpd, port = find_port(
            lambda addr: RendezvousHTTPServer(
                addr, handler_cls, self._verbose))""",
        """def start(self, handler_cls=RendezvousHandler, *, address):
        self._httpd, port = find_port(
            lambda addr: RendezvousHTTPServer(
                addr, handler_cls, self._verbose), address)""",
        "the rendezvous listens at the address that the workers are told, no other",
    ),
    Edit(
        HTTP_SERVER,
        """def start_server(self):
        self.httpd, port = find_port(
            lambda addr: KVStoreHTTPServer(
                addr, KVStoreHandler, self.verbose))""",
        """def start_server(self, address):
        self.httpd, port = find_port(
            lambda addr: KVStoreHTTPServer(
                addr, KVStoreHandler, self.verbose), address)""",
        "the store of functions and results listens at the address that the workers are told, no other",
    ),
    Edit(FIND_PORT, "def find_port(server_factory):", "def find_port(server_factory, address):", "see the next edit"),
    Edit(FIND_PORT, "addr = ('', port)", "addr = (address, port)", "'' is every interface"),
    Edit(
        FIND_PORT,
        """to bind to.')


def get_driver_ip""",
        """to bind to.')


def get_only_address(nics):
    # The one IPv4 address of these interfaces; if they have several, or none is given, '', which is every interface
    addresses = [addr.address for iface, addrs in net_if_addrs().items() if nics and iface in nics
                 for addr in addrs if addr.family == AF_INET]
    return addresses[0] if len(addresses) == 1 else ''


def get_driver_ip""",
        "see the next edits",
    ),
    Edit(
        SERVICES,
        "import find_port\n\n\nclass PingRequest",
        "import find_port, get_only_address\n\n\nclass PingRequest",
        "see the next edit",
    ),
    Edit(
        SERVICES,
        "addr, self._make_handler()))",
        "addr, self._make_handler()), get_only_address(nics))",
        "a service for one interface needs no other; for several it still listens on all, where it checks its own HMAC",
    ),
    Edit(
        GLOO_RUN,
        "global_rendezv_port = rendezvous.start()",
        "global_rendezv_port = rendezvous.start(address=server_ip)",
        "see the edits of the servers",
    ),
    Edit(
        GLOO_RUN,
        """    global_rendezv_port = rendezvous.start(handler)
    driver.wait_for_available_slots(settings.num_proc)

    nics = get_common_interfaces(driver)
    server_ip = network.get_driver_ip(nics)
""",
        """    driver.wait_for_available_slots(settings.num_proc)

    nics = get_common_interfaces(driver)
    server_ip = network.get_driver_ip(nics)
    global_rendezv_port = rendezvous.start(handler, address=server_ip)
""",
        "see the edits of the servers; nobody asks the rendezvous before workers start",
    ),
    Edit(
        GLOO_RUN,
        "run_func_server_port = run_func_server.start_server()",
        "run_func_server_port = run_func_server.start_server(server_ip)",
        "see the edits of the servers",
    ),
    Edit(
        LAUNCH,
        "run_func_server_port = run_func_server.start_server()",
        "run_func_server_port = run_func_server.start_server(driver_ip)",
        "see the edits of the servers",
    ),
    Edit(
        LAUNCH,
        "config_parser, hosts, safe_shell_exec, secret, timeout",
        "config_parser, hosts, request_signature, safe_shell_exec, timeout",
        "see the next edits",
    ),
    Edit(
        LAUNCH,
        "binding_args=args.binding_args,\n" + 37 * " " + "key=secret.make_secret_key(),",
        "binding_args=args.binding_args,\n" + 37 * " " + "key=request_signature.make_job_key(),",
        "workers inherit the key in their environment",
    ),
    Edit(
        LAUNCH,
        "extra_mpi_args=args.mpi_args,\n" + 48 * " " + "key=secret.make_secret_key(),",
        "extra_mpi_args=args.mpi_args,\n" + 48 * " " + "key=request_signature.make_job_key(),",
        "workers of an elastic job inherit the key in their environment",
    ),
    Edit(
        HTTP_CLIENT,
        "import urlopen\n\nfrom horovod.runner.common.util import codec\n",
        "import urlopen\n\nfrom horovod.runner.common.util import codec, request_signature\n",
        "see the next edits",
    ),
    Edit(
        HTTP_CLIENT,
        "req = Request(url)\n        resp",
        "req = Request(url)\n        request_signature.sign(req)\n        resp",
        "the key-value store answers signed requests only",
    ),
    Edit(
        HTTP_CLIENT,
        "# for urllib2 compatibility\n        urlopen",
        "# for urllib2 compatibility\n        request_signature.sign(req)\n        urlopen",
        "the servers take signed values only",
    ),
    Edit(
        HTTP_REQUEST,
        "#include <cstdint>\n\n#ifdef",
        '#include <cstdint>\n\n#include "request_signature.h"\n\n#ifdef',
        "see the next edit",
    ),
    Edit(
        HTTP_REQUEST,
        """domain + "\\r\\n";
            requestData += "Content""",
        """domain + "\\r\\n";
            requestData += request_signature::header_lines(method, path, body);
            requestData += "Content""",
        "the rendezvous answers signed requests only",
    ),
    Edit(
        HTTP_STORE,
        """const std::string& body = "") {
  for (""",
        """const std::string& body = "") {
  // Without a key this throws here, with its reason, rather than in each of the tries, which hide theirs.
  request_signature::job_key();
  for (""",
        "a worker that has no key ends and says why",
    ),
    Edit(
        REMOTE,
        "import env as env_util\n",
        "import env as env_util, request_signature\n",
        "see the next edit",
    ),
    Edit(
        REMOTE,
        "return f'{SSH_COMMAND_PREFIX} {host} {port_arg} {identity_file_arg} {timeout_arg} {local_command}'",
        "return f'{request_signature.SEND_KEY} {SSH_COMMAND_PREFIX} {host} {port_arg} {identity_file_arg} '"
        " \\\n           f'{timeout_arg} {request_signature.RECEIVE_KEY} {local_command}'",
        "workers on other machines get the key by ssh's standard input, which only ssh reads",
    ),
    Edit(
        DRIVER_SERVICE,
        "import codec, safe_shell_exec\n",
        "import codec, request_signature, safe_shell_exec\n",
        "see the next edit",
    ),
    Edit(
        DRIVER_SERVICE,
        "settings=codec.dumps_base64(settings))",
        "settings=codec.dumps_base64(request_signature.without_key(settings)))",
        "the settings are put on a command line, which every user of the machine can read",
    ),
    Edit(
        TASK_FUNCTION,
        "import codec, host_hash\n",
        "import codec, host_hash, request_signature\n",
        "see the next edit",
    ),
    Edit(
        TASK_FUNCTION,
        "settings = codec.loads_base64(sys.argv[4])\n\n",
        "settings = codec.loads_base64(sys.argv[4])\n    settings.key = request_signature.job_key()\n\n",
        "the settings come without the key, which is in the environment",
    ),
)
# Files of this folder, and where they go in Horovod's source.
ADDITIONS = {
    "request_signature.py": "horovod/runner/common/util/request_signature.py",
    "request_signature.h": "third_party/HTTPRequest/include/request_signature.h",
}


def addition_texts() -> dict[str, str]:
    """Return the text of each file that is added to Horovod's source, by the path that it gets there."""
    return {path: Path(__file__).with_name(name).read_text() for name, path in ADDITIONS.items()}


def apply_edits(source: Path, edits: Sequence[Edit]) -> None:
    """Make `edits` in the tree at `source`; raise BuildError at the first that doesn't apply exactly once."""
    for edit in edits:
        file = source / edit.path
        text = file.read_text() if file.exists() else ""
        occurrences = text.count(edit.old)
        if occurrences != 1:
            raise BuildError(
                f"The edit of Horovod's {edit.path} that replaces {edit.old.strip()!r} ({edit.why}) no longer applies, "
                f"since the text occurs {occurrences} times instead of once: bring EDITS in {__file__} up to date."
            )
        file.write_text(text.replace(edit.old, edit.new))


def add_files(source: Path) -> None:
    """Write the files that addition_texts lists into the tree at `source`."""
    for path, text in addition_texts().items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)


def installed_version(*names: str) -> str:
    """Return name and version of the first of these distributions that is installed; raise BuildError if none is."""
    for name in names:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    raise BuildError(
        f"{names[0]} is not installed for {sys.executable}: install the `horovod` dependency group, for example with "
        f"`{sys.executable} -m pip install --group horovod`."
    )


def describe_tool(candidates: Sequence[str], question: str = "--version") -> str:
    """Return path and answer of the first candidate on PATH that answers `question`, or '' if none does.

    The environment's own folder is written as {environment}: the wheel is as good for the same tools in another one.
    """
    for candidate in candidates:
        program, *arguments = shlex.split(candidate)
        path = shutil.which(program)
        if path:
            answer = subprocess.run([path, *arguments, question], capture_output=True, text=True)
            if answer.returncode == 0:
                return f"{path}\n{answer.stdout}".replace(sys.prefix, "{environment}")
    return ""


def required_tool(what: str, package: str, candidates: Sequence[str]) -> str:
    """Return describe_tool's answer; raise BuildError, naming the Debian `package` to install, if there is none."""
    description = describe_tool(candidates)
    if not description:
        raise BuildError(f"{what} was not found: install it, for example with `apt-get install {package}`.")
    return description


def cpu_features() -> str:
    """Return those of the CPU features for which Horovod compiles that this machine has."""
    cpu_information = Path("/proc/cpuinfo")
    words = set(cpu_information.read_text().split()) if cpu_information.exists() else set()
    return " ".join(sorted(words & {"avx", "f16c", "fma"}))


def build_ingredients() -> dict[str, str]:
    """Return everything that the wheel depends on, by name; raise BuildError if something needed is missing."""
    for name in BUILD_REQUIREMENTS:
        installed_version(name)
    compilers = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    setting = re.compile("HOROVOD_.*|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|CUDA_HOME|CUDA_PATH")
    return {
        "archive": ARCHIVE_SHA256,
        "edits": json.dumps([(edit.path, edit.old, edit.new) for edit in EDITS]),
        "additions": json.dumps(addition_texts()),
        "torch": installed_version("torch"),
        "tensorflow": installed_version("tensorflow", "tensorflow-cpu"),
        "python": f"{platform.python_version()} {sysconfig.get_config_var('SOABI')}",
        "compiler": required_tool("A C++ compiler", "g++", compilers),
        "cmake": required_tool("CMake", "cmake", ["cmake"]),
        "make": required_tool("Make", "make", ["make"]),
        # A wrapper's --version is that of the compiler behind it; -show tells which MPI it compiles and links for.
        "mpi": describe_tool(["mpicxx", "mpic++"], "-show"),
        "mpirun": describe_tool(["mpirun"]),
        "cuda": describe_tool(["nvcc", "/usr/local/cuda/bin/nvcc"]),
        "machine": f"{platform.machine()} {cpu_features()}",
        "settings": json.dumps({name: value for name, value in os.environ.items() if setting.fullmatch(name)}),
    }


def cache_key(ingredients: Mapping[str, str]) -> str:
    """Return the SHA-256 of the ingredients: a wheel is used again only where all of them are the same."""
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()


def cached_wheel(directory: Path) -> Path | None:
    """Return the wheel in `directory`, or None if there is none or it is damaged."""
    for wheel in directory.glob("horovod-*.whl"):
        try:
            with zipfile.ZipFile(wheel) as archive:
                if archive.testzip() is None:
                    return wheel
        except (zipfile.BadZipFile, zlib.error, EOFError):
            continue
    return None


def run_pip(arguments: Sequence[str], log: Path, settings: Mapping[str, str] | None = None) -> bool:
    """Run pip with `settings` added to the environment, append its output to `log`, return whether it succeeded."""
    command = [sys.executable, "-m", "pip", *arguments]
    with log.open("ab") as output:
        run = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | (settings or {}))
    return run.returncode == 0


def download_source(scratch: Path, log: Path) -> Path:
    """Download, check and unpack Horovod below `scratch` and return its root; raise BuildError if that fails."""
    # `pip download` runs the archive's setup.py; told the hash, it checks the archive before that.
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"horovod=={VERSION} --hash=sha256:{ARCHIVE_SHA256}\n")
    arguments = ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    if not run_pip([*arguments, "--requirement", str(requirements), "--dest", str(scratch)], log):
        if "DO NOT MATCH THE HASHES" in log.read_text(errors="replace"):
            raise BuildError(
                f"The archive of Horovod {VERSION} that pip found does not have the expected SHA-256 and was not used: "
                f"check which package index pip is set to use; the log is {log}."
            )
        raise BuildError(
            f"pip could not download Horovod {VERSION}: check the network connection and pip's settings, and run this "
            f"again; the log is {log}."
        )
    with tarfile.open(scratch / f"horovod-{VERSION}.tar.gz") as archive:
        archive.extractall(scratch, filter="data")
    return scratch / f"horovod-{VERSION}"


def compile_wheel(source: Path, with_mpi: bool, log: Path) -> Path:
    """Compile the tree at `source` and return the wheel; raise BuildError with the first error if that fails."""
    settings = {
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITH_MPI" if with_mpi else "HOROVOD_WITHOUT_MPI": "1",
        # Unset, Horovod's setup.py starts eight compilers at a time, whatever the cores and the memory.
        "MAKEFLAGS": f"-j{os.cpu_count()}",
        # Gloo's CMakeLists.txt asks for CMake 2.8, which CMake 4 no longer imitates.
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
    }
    arguments = ["wheel", "--verbose", "--no-build-isolation", "--no-deps", "--no-index"]
    if not run_pip([*arguments, "--wheel-dir", str(source.parent), str(source)], log, settings):
        error = re.search(r"^.*(?:\berror: |CMake Error).*$", log.read_text(errors="replace"), re.MULTILINE)
        first_error = error.group().strip() if error else "not recognised"
        raise BuildError(f"Horovod did not compile: see the log, {log}, where the first error is: {first_error}")
    return next(source.parent.glob("horovod-*.whl"))


def build_wheel(directory: Path, with_mpi: bool) -> Path:
    """Build Horovod and return the wheel, which appears in `directory` only whole; raise BuildError if that fails."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "build.log"
    log.write_bytes(b"")
    with tempfile.TemporaryDirectory(prefix="building-", dir=directory) as scratch:
        print(f"downloading Horovod {VERSION} ...", flush=True)
        source = download_source(Path(scratch), log)
        apply_edits(source, EDITS)
        add_files(source)
        with_what = "Gloo and MPI" if with_mpi else "Gloo"
        print(f"building Horovod {VERSION} with {with_what} (about 3 minutes on 2 cores) ...", flush=True)
        wheel = compile_wheel(source, with_mpi, log)
        return wheel.replace(directory / wheel.name)


def is_installed(wheel: Path) -> bool:
    """Tell whether the Horovod of this environment was installed from this very wheel."""
    try:
        origin = importlib.metadata.distribution("horovod").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return False
    recorded = json.loads(origin or "{}").get("archive_info", {}).get("hashes", {}).get("sha256")
    return recorded == hashlib.sha256(wheel.read_bytes()).hexdigest()


def install(wheel: Path, with_mpi: bool) -> None:
    """Install `wheel` and try it with both frameworks; raise BuildError, with Horovod uninstalled, if it fails."""
    log = wheel.with_name("install.log")
    log.write_bytes(b"")
    print(f"installing {wheel.name} ...", flush=True)
    if not run_pip(["install", "--no-deps", "--no-index", "--force-reinstall", str(wheel)], log):
        raise BuildError(f"pip could not install {wheel}: see its log, {log}.")
    for framework in ("torch", "tensorflow"):
        check = f"import horovod.{framework} as hvd; assert hvd.gloo_built() and hvd.mpi_built() == {with_mpi}"
        trial = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
        if trial.returncode:
            run_pip(["uninstall", "--yes", "horovod"], log)
            reason = (trial.stderr.strip().splitlines() or ["no message"])[-1]
            raise BuildError(
                f"Horovod does not load with {framework} and was uninstalled: remove {wheel.parent} and run this again "
                f"to build it anew; the reason was: {reason}"
            )


def main() -> int:
    """Build and install Horovod where that is not done yet; return the exit status."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    try:
        ingredients = build_ingredients()
        with_mpi = bool(ingredients["mpi"])
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        directory = cache / "lockstep" / "horovod" / cache_key(ingredients)
        wheel = cached_wheel(directory) or build_wheel(directory, with_mpi)
        if not is_installed(wheel):
            install(wheel, with_mpi)
    except (BuildError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"Horovod {VERSION} is installed for torch and TensorFlow.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
