"""What is edited in Horovod 0.28.1's source, and why: so that it builds today, and keeps strangers out."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One replacement in Horovod's source: `old`, which must occur exactly once in `path`, becomes `new`."""

    path: str
    old: str
    new: str
    why: str


STANDARD = "set(CMAKE_CXX_STANDARD %d)"
XLA = 'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n'
TENSORFLOW = "horovod/tensorflow/CMakeLists.txt"
HTTP_SERVER = "horovod/runner/http/http_server.py"
HTTP_CLIENT = "horovod/runner/http/http_client.py"
HTTP_REQUEST = "third_party/HTTPRequest/include/HTTPRequest.hpp"
HTTP_STORE = "horovod/common/gloo/http_store.cc"
LAUNCH = "horovod/runner/launch.py"
MPI_RUN = "horovod/runner/mpi_run.py"
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
    Edit(
        "CMakeLists.txt",
        """include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
""",
        """if(HOROVOD_GPU_OPERATIONS)
    include(CheckLanguage)
    check_language(CUDA)
endif()
if(HOROVOD_GPU_OPERATIONS AND NOT CMAKE_CUDA_COMPILER)
""",
        "a build without GPUs would use whatever part of a CUDA toolkit lies about",
    ),
    Edit(
        "CMakeLists.txt",
        "-Wl,--version-script=${CMAKE_SOURCE_DIR}/horovod.lds ",
        '-Wl,--version-script=\\"${CMAKE_SOURCE_DIR}/horovod.lds\\" ',
        "the path of the source may have spaces",
    ),
    Edit(
        "third_party/gloo/CMakeLists.txt",
        "project(gloo CXX C)",
        "project(gloo CXX)",
        "there is no C in it, so a C++ compiler will do",
    ),
    Edit(
        TENSORFLOW,
        "# Create library\nset_output_dir()\n",
        """set_output_dir()
if(HAVE_CUDA)
    list(FILTER SOURCES EXCLUDE REGEX "(cuda|gpu|nccl)_operations.cc$")
    list(REMOVE_ITEM LINKER_LIBS ${NCCL_LIBRARIES})
    foreach(operation ALLREDUCE ALLGATHER BROADCAST ALLTOALL REDUCESCATTER)
        remove_definitions(-DHOROVOD_GPU_${operation}=78)
    endforeach()
    remove_definitions(-DHAVE_CUDA=1 -DHAVE_GPU=1 -DHAVE_NCCL=1)
endif()
add_library(horovod_common OBJECT ${SOURCES})
target_include_directories(horovod_common PRIVATE "${EIGEN_INCLUDE_PATH}" "${FLATBUFFERS_INCLUDE_PATH}")
set_target_properties(horovod_common PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
set(SOURCES $<TARGET_OBJECTS:horovod_common>)
if(NOT HAVE_CUDA)
    set(SOURCES ${SOURCES} PARENT_SCOPE)
endif()
""",
        "TensorFlow's half has no GPU operations; where torch's has none either, both are made from the same objects",
    ),
    Edit(
        "CMakeLists.txt",
        "    include_directories(third_party/gloo)\n    target_compile_definitions(gloo",
        """    include_directories(third_party/gloo)
    set_target_properties(gloo PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    set_property(SOURCE "${PROJECT_SOURCE_DIR}/third_party/gloo/gloo/allreduce_local.cc"
                 TARGET_DIRECTORY gloo PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    target_compile_definitions(gloo""",
        "small files that include the same headers are compiled together in a fraction of the time",
    ),
    Edit(
        "horovod/torch/CMakeLists.txt",
        "# Create library\nset_output_dir()\n",
        """set(CMAKE_UNITY_BUILD ON)
foreach(source IN LISTS SOURCES)
    if(source MATCHES "(cuda|gpu|nccl)_operations.cc$")
        set_property(SOURCE "${source}" PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
endforeach()
set_output_dir()
""",
        "see the edit before: torch's headers are read once instead of five times; GPU operations stay apart",
    ),
    Edit(
        TENSORFLOW,
        """if(HAVE_CUDA)
    if (Tensorflow_CXX11)
        list(APPEND TF_LINKER_LIBS horovod_cuda_kernels)""",
        """if(FALSE)
    if (Tensorflow_CXX11)
        list(APPEND TF_LINKER_LIBS horovod_cuda_kernels)""",
        "see the edit before",
    ),
    Edit(
        "horovod/torch/CMakeLists.txt",
        "from distutils.sysconfig import get_python_inc; print(get_python_inc())",
        "import sysconfig; print(sysconfig.get_path('include'))",
        "Python 3.12 has no distutils",
    ),
    # What follows is for GPUs.
    Edit(
        "CMakeLists.txt",
        '\n        "${PROJECT_SOURCE_DIR}/cmake/upstream/")',
        ")",
        "CMake's own FindCUDAToolkit knows CUDA 13, and the copy of it from CMake 3.17 does not",
    ),
    Edit(
        "horovod/common/ops/cuda/CMakeLists.txt",
        "set(CMAKE_CUDA_STANDARD 11)",
        "set(CMAKE_CUDA_STANDARD 17)",
        "CUDA 13 refuses C++11",
    ),
    Edit(
        "horovod/common/ops/cuda/CMakeLists.txt",
        "add_library(compatible_horovod_cuda_kernels cuda_kernels.cu)",
        "add_library(compatible_horovod_cuda_kernels EXCLUDE_FROM_ALL cuda_kernels.cu)",
        "nothing is linked with it",
    ),
    Edit(
        MPI_RUN,
        "['-bind-to none', '-map-by slot']",
        "['--bind-to none', '--map-by slot']",
        "Open MPI 5 splits a long option with a single dash into short ones",
    ),
    Edit(
        MPI_RUN,
        "f'-mca plm_rsh_args",
        "f'--prtemca plm_ssh_args",
        "Open MPI 5 takes the key and the port for ssh by another name",
    ),
    Edit(
        MPI_RUN,
        "['/bin/sh', '-c', mpirun_command]",
        "['/bin/sh', '-c', 'exec ' + mpirun_command]",
        "a signal to horovodrun would end the shell alone, and the job go on",
    ),
    Edit(
        LAUNCH,
        "    if not args.disable_cache:\n        params = ''",
        "    if not args.disable_cache and os.access(os.path.expanduser('~'), os.W_OK):\n        params = ''",
        "where the home can't be written, horovodrun would end instead of going without its memory of checked hosts",
    ),
    Edit(
        LAUNCH,
        "SSH_ATTEMPTS = 5",
        "SSH_ATTEMPTS = 1",
        "five attempts of 10 seconds are longer than the start timeout, and hide why the first one failed",
    ),
    Edit(
        GLOO_RUN,
        "cd {pwd} > /dev/null 2>&1 ; {command}'",
        "cd {pwd} > /dev/null 2>&1 ; exec setpriv --pdeathsig KILL {command}'",
        "a worker that doesn't answer would stay on the other machine when its ssh session ends (prctl(2), PDEATHSIG)",
    ),
    Edit(
        GLOO_RUN,
        ".format(pwd=os.getcwd(), command=command))",
        ".format(pwd=quote(os.getcwd()), command=command))",
        "the folder's path may have spaces",
    ),
    Edit(
        DRIVER_SERVICE,
        ".format(python=sys.executable,\n                    index=codec.dumps_base64(index),",
        ".format(python=shlex.quote(sys.executable),\n                    index=codec.dumps_base64(index),",
        "the environment's path may have spaces",
    ),
    Edit(DRIVER_SERVICE, "import os\nimport sys\n", "import os\nimport shlex\nimport sys\n", "see the edit before"),
    Edit(
        "horovod/common/util.py",
        "EXTENSIONS = ['tensorflow', 'torch', 'mxnet']",
        "EXTENSIONS = ['torch', 'tensorflow', 'mxnet']",
        "horovodrun loads the first of these to ask what was built, and torch loads in half the time",
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

ADDITIONS = {
    "cmake/FindMPI.cmake": "cmake/lockstep/FindMPI.cmake",
    "cmake/FindPytorch.cmake": "cmake/lockstep/FindPytorch.cmake",
    "cmake/FindTensorflow.cmake": "cmake/lockstep/FindTensorflow.cmake",
    "request_signature.py": "horovod/runner/common/util/request_signature.py",
    "request_signature.h": "third_party/HTTPRequest/include/request_signature.h",
}
"""Files of this folder, and where they go in Horovod's source."""
