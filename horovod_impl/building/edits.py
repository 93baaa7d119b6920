"""What is edited in Horovod 0.28.1's source, and why.

So that it builds today, keeps strangers out, says why it fails, and works with Keras 3.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One replacement in Horovod's source: `old`, which must occur in `path` exactly so many times, becomes `new`."""

    path: str
    old: str
    new: str
    why: str
    times: int = 1


STANDARD = "set(CMAKE_CXX_STANDARD %d)"
XLA = 'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n'
TENSORFLOW = "horovod/tensorflow/CMakeLists.txt"
HTTP_SERVER = "horovod/runner/http/http_server.py"
HTTP_CLIENT = "horovod/runner/http/http_client.py"
HTTP_REQUEST = "third_party/HTTPRequest/include/HTTPRequest.hpp"
HTTP_STORE = "horovod/common/gloo/http_store.cc"
GLOBAL_STATE = "horovod/common/global_state.h"
OPERATIONS = "horovod/common/operations.cc"
TENSOR_QUEUE = "horovod/common/tensor_queue"
PROCESS_SET = "horovod/common/process_set.cc"
BASICS = "horovod/common/basics.py"
TENSORFLOW_INIT = "horovod/tensorflow/__init__.py"
TENSORFLOW_UTIL = "horovod/tensorflow/util.py"
SYNC_BATCH_NORM = "horovod/tensorflow/sync_batch_norm.py"
KERAS_OPTIMIZER = "horovod/_keras/__init__.py"
KERAS_CALLBACKS = "horovod/_keras/callbacks.py"
GLOO_TRANSPORT = "third_party/gloo/gloo/transport/tcp"
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
  // Without a key this throws here, once, rather than in each of the tries.
  request_signature::job_key();
  std::string reason;
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
    Edit(
        "horovod/common/gloo/gloo_context.cc",
        """  device_attr.iface = gloo_iface_;
  device_attr.ai_family = AF_UNSPEC;
  auto dev = CreateDevice(device_attr);

  global_ctx = global_context.ctx;""",
        """  gloo_iface_ = global_context.gloo_iface_;
  device_attr.iface = global_context.gloo_iface_;
  device_attr.ai_family = AF_UNSPEC;
  auto dev = CreateDevice(device_attr);

  global_ctx = global_context.ctx;""",
        "each process set, that of all workers too, would use the address of the host's name, whatever interface was "
        "chosen",
    ),
    # What follows makes an error with a reason of what would end the process without one.
    Edit(
        GLOBAL_STATE,
        """initialization_failed{false};

  // Pointer""",
        """initialization_failed{false};

  // Why the background thread ended, where an exception ended it. To be read only where `failed` is set.
  std::string failure;
  std::atomic_bool failed{false};

  void Fail(const std::exception& ex) {
    if (!failed) {
      failure = ex.what();
      failed = true;
    }
  }

  // What operations end with that the background thread no longer performs.
  Status ShutDownError() const {
    return failed ? Status::UnknownError("Horovod's background thread ended: " + failure) : SHUT_DOWN_ERROR;
  }

  // Pointer""",
        "see the next edits",
    ),
    Edit(
        OPERATIONS,
        "SHUT_DOWN_ERROR",
        "horovod_global.ShutDownError()",
        "operations that are pending, or come later, end with what ended the thread",
        times=9,
    ),
    Edit(
        OPERATIONS,
        """  } catch (const std::exception& ex) {
    LOG(ERROR, horovod_global.global_controller->GetRank())
        << "Horovod background loop""",
        """  } catch (const std::exception& ex) {
    state.Fail(ex);
    LOG(ERROR, horovod_global.global_controller->GetRank())
        << "Horovod background loop""",
        "see the edit before",
    ),
    Edit(
        OPERATIONS,
        """ex.what();
    state.initialization_failed = true;""",
        """ex.what();
    state.Fail(ex);
    state.initialization_failed = true;""",
        "see the edits before",
    ),
    Edit(
        OPERATIONS,
        """  return !should_shutdown;
}

// Start""",
        """  return !should_shutdown;
}

// What BackgroundThreadLoop throws, most of it from Gloo while it connects, would end the process.
void RunBackgroundThread(HorovodGlobalState& state) {
  try {
    BackgroundThreadLoop(state);
  } catch (const std::exception& ex) {
    state.Fail(ex);
    state.shut_down = true;
    for (auto id : state.process_set_table.Ids()) {
      state.process_set_table.Get(id).Finalize(state.ShutDownError());
    }
#if HAVE_GLOO
    global_gloo_context.Finalize();
#endif
    state.initialization_failed = !state.initialization_done;
  }
}

// Start""",
        "a worker that can't connect says why instead of ending with SIGABRT",
    ),
    Edit(
        OPERATIONS,
        "std::thread(BackgroundThreadLoop, std::ref",
        "std::thread(RunBackgroundThread, std::ref",
        "see the edit before",
    ),
    Edit(
        OPERATIONS,
        """.test_and_set()) {
    horovod_global.control_operation""",
        """.test_and_set()) {
    horovod_global.failed = false;
    horovod_global.initialization_failed = false;
    horovod_global.control_operation""",
        "who has failed to initialize Horovod may shut it down and try again",
    ),
    Edit(
        OPERATIONS,
        """  return InitializeHorovodOnce(
      ranks_vec, BuildProcessSetRanksVectors(
                     process_set_ranks, process_set_sizes, num_process_sets));
}
""",
        """  try {
    return InitializeHorovodOnce(ranks_vec, BuildProcessSetRanksVectors(process_set_ranks, process_set_sizes,
                                                                        num_process_sets));
  } catch (const std::exception& ex) {
    // The environment names something that isn't there.
    horovod_global.Fail(ex);
    horovod_global.initialize_flag.clear();
    return false;
  }
}

// Why Horovod could not be initialized, or its background thread ended; "" where neither is so.
const char* horovod_initialization_error() {
  return horovod_global.failed ? horovod_global.failure.c_str() : "";
}
""",
        "see the edits before",
    ),
    Edit(
        BASICS,
        """            raise ValueError(
                "Horovod initialization failed. Please check log messages above for a more descriptive error.")
""",
        """            reason = self.initialization_error() or "the log messages above may tell more"
            raise ValueError(f"Horovod initialization failed: {reason}")
""",
        "see the edits before",
    ),
    Edit(
        BASICS,
        """duplicate: {ps}")

    def shutdown(self):""",
        """duplicate: {ps}")

    def initialization_error(self):
        \"""Returns why `init` failed, or why Horovod's background thread ended since; '' where neither is so.\"""
        self.MPI_LIB_CTYPES.horovod_initialization_error.restype = ctypes.c_char_p
        return self.MPI_LIB_CTYPES.horovod_initialization_error().decode(errors="replace")

    def shutdown(self):""",
        "see the edits before",
    ),
    Edit(
        OPERATIONS,
        """  state.shut_down = true;

  // For each""",
        """  state.shut_down = true;

  // Before the table of process sets is locked, which a thread that holds Python's lock may wait for.
  for (auto id : state.process_set_table.Ids()) {
    state.process_set_table.Get(id).tensor_queue.FinalizeTensorQueue(state.ShutDownError());
  }

  // For each""",
        "where a worker is lost another would sometimes hang: what ends pending operations may take Python's lock",
    ),
    Edit(
        f"{TENSOR_QUEUE}.cc",
        """  std::lock_guard<std::mutex> guard(mutex_);
  for (auto& e : tensor_table_) {
    e.second.FinishWithCallback(status);
  }
  tensor_table_.clear();
  while (!message_queue_.empty()) {
    message_queue_.pop();
  }
}
""",
        """  decltype(tensor_table_) ended;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    end_ = status;
    ended.swap(tensor_table_);
    message_queue_ = std::queue<Request>();
  }
  for (auto& e : ended) {
    e.second.FinishWithCallback(status);
  }
}

void TensorQueue::Reopen() {
  std::lock_guard<std::mutex> guard(mutex_);
  end_ = Status::OK();
}
""",
        "see the edit before: nor may the queue be locked meanwhile",
    ),
    Edit(
        f"{TENSOR_QUEUE}.h",
        """FinalizeTensorQueue(const Status& status);

  int64_t""",
        """FinalizeTensorQueue(const Status& status);

  // For when Horovod is initialized again.
  void Reopen();

  int64_t""",
        "see the next edits",
    ),
    Edit(
        f"{TENSOR_QUEUE}.h",
        "  mutable std::mutex mutex_;\n};",
        "  mutable std::mutex mutex_;\n\n  // What ended the queue.\n  Status end_;\n};",
        "see the next edits",
    ),
    Edit(
        f"{TENSOR_QUEUE}.cc",
        "guard(mutex_);\n  if (tensor_table_.find(e.tensor_name)",
        "guard(mutex_);\n  if (!end_.ok()) {\n    return end_;\n  }\n  if (tensor_table_.find(e.tensor_name)",
        "an operation that came just after the pending ones were ended would wait for ever",
    ),
    Edit(
        f"{TENSOR_QUEUE}.cc",
        "guard(mutex_);\n\n  for (std::size_t i = 0;",
        "guard(mutex_);\n  if (!end_.ok()) {\n    return end_;\n  }\n\n  for (std::size_t i = 0;",
        "see the edit before",
    ),
    Edit(
        PROCESS_SET,
        "  }\n  initialization_done = true;\n",
        "  }\n  tensor_queue.Reopen();\n  initialization_done = true;\n",
        "see the edits before",
        times=2,
    ),
    Edit(
        PROCESS_SET,
        """    while (true) {
      InitializeRegisteredAndRemoveMarkedIfReady_(context, status);
      if""",
        """    while (true) {
      try {
        InitializeRegisteredAndRemoveMarkedIfReady_(context, status);
      } catch (const std::exception&) {
        // Whom this would wait for is gone.
        Get(id).Finalize(status);
        DeregisterProcessSet(id);
        id_to_be_removed_ = NO_PENDING_REMOVAL;
        break;
      }
      if""",
        "where a worker is lost the others' operations on process sets end, with the reason, and not their processes",
    ),
    Edit(
        HTTP_STORE,
        '        LOG(WARNING) << "HTTP response not OK, got " << response.status;',
        '        reason = "it answers with HTTP status " + std::to_string(response.status);',
        "see the edit after the next one",
    ),
    Edit(HTTP_STORE, 'LOG(DEBUG) << "Exception: " << e.what();', "reason = e.what();", "see the next edit"),
    Edit(
        HTTP_STORE,
        """  LOG(ERROR) << "HTTP GET request failed too many times, aborting. See "
                "exception message above.";
  throw std::runtime_error("HTTP request failed.");
""",
        """  throw std::runtime_error("horovodrun's rendezvous at " + url_prefix_ + " can't be reached: " + reason);
""",
        "the reason would be in the log of debugging alone",
    ),
    Edit(
        HTTP_SERVER,
        "self.server.finished_list.clear()",
        "self.server.finished_list[scope].clear()",
        "the rendezvous would forget who is done elsewhere, and tell workers that initialize again old addresses",
    ),
    Edit(
        f"{GLOO_TRANSPORT}/pair.cc",
        'GLOO_ERROR_MSG("connect: ", ',
        'GLOO_ERROR_MSG("connect ", peer_.str(), ": ", ',
        "whom a worker can't reach is named, here as elsewhere",
    ),
    Edit(
        f"{GLOO_TRANSPORT}/address.cc",
        "port = in->sin_port;",
        "port = ntohs(in->sin_port);",
        "the errors that name an address had the bytes of its port in the network's order",
    ),
    Edit(
        f"{GLOO_TRANSPORT}/address.cc",
        "port = in6->sin6_port;",
        "port = ntohs(in6->sin6_port);",
        "see the edit before",
    ),
    Edit(
        f"{GLOO_TRANSPORT}/device.cc",
        "auto rv = getaddrinfo(attr.hostname.data(), nullptr, &hints, &result);\n  GLOO_ENFORCE_NE(rv, -1);",
        """auto rv = getaddrinfo(attr.hostname.data(), nullptr, &hints, &result);
  GLOO_ENFORCE(rv == 0, "Unable to find address for ", attr.hostname, ": ", gai_strerror(rv));""",
        "errors are other numbers than -1, after which this would read an address that was never found",
    ),
    # What follows is for Keras 3.
    Edit(
        TENSORFLOW_UTIL,
        "return wrapper\n\n\ndef vars_to_refs",
        """return wrapper


def variable_of(variable):
    # A variable of Keras 3 is none of TensorFlow's, but keeps its value in one.
    value = getattr(variable, 'value', None)
    return value if isinstance(value, tf.Variable) else variable


def vars_to_refs""",
        "see the next edits",
    ),
    Edit(TENSORFLOW_UTIL, "return vars.ref()", "return variable_of(vars).ref()", "see the next edits"),
    Edit(
        TENSORFLOW_INIT,
        "_cache, vars_to_refs, refs_to_vars",
        "_cache, variable_of, vars_to_refs, refs_to_vars",
        "see the next edits",
    ),
    Edit(
        TENSORFLOW_INIT,
        "(source.ref())",
        "(variable_of(source).ref())",
        "a tape takes variables of Keras 3 as those whose gradients stay local",
    ),
    Edit(
        TENSORFLOW_INIT,
        """use_generic_names=False):
            gradients = super""",
        """use_generic_names=False):
            sources = [variable_of(source) for source in sources]
            gradients = super""",
        "a tape takes variables of Keras 3 as sources",
    ),
    Edit(
        TENSORFLOW_INIT,
        "is_local_source = s.ref()",
        "is_local_source = variable_of(s).ref()",
        "see the edits before",
    ),
    Edit(
        "horovod/tensorflow/functions.py",
        "import _cache, _executing_eagerly, _make_subgraph\n",
        "import _cache, _executing_eagerly, _make_subgraph, variable_of\n",
        "see the next edit",
    ),
    Edit(
        "horovod/tensorflow/functions.py",
        """broadcasts
    \"""
    if inplace:""",
        """broadcasts
    \"""
    variables = [variable_of(variable) for variable in variables]
    if inplace:""",
        "variables of Keras 3 can be broadcast",
    ),
    Edit(SYNC_BATCH_NORM, ".__init__(fused=fused, **kwargs)", ".__init__(**kwargs)", "Keras 3 has no fused layer"),
    Edit(
        SYNC_BATCH_NORM,
        "  def _moments(self, inputs, reduction_axes, keep_dims, **kwargs):",
        """    # XLA knows no operation of Horovod's.
    self.supports_jit = False

  def _moments(self, inputs, mask):""",
        "Keras 3 calls it with other arguments",
    ),
    Edit(
        SYNC_BATCH_NORM,
        """self)._moments(
      inputs, reduction_axes, keep_dims=keep_dims, **kwargs)
""",
        """self)._moments(inputs, mask)
    if mask is not None:
      raise NotImplementedError(
        'SyncBatchNormalization counts the rows of each worker as equally many, which a mask may not leave so.')
""",
        "see the edit before",
    ),
    Edit(
        SYNC_BATCH_NORM,
        """
  def call(self, *args, **kwargs):
    outputs = super(SyncBatchNormalization, self).call(*args, **kwargs)
    try:
      # A temporary hack for TF1 compatibility with Keras batch norm.
      # Ops are added to tf.GraphKeys.UPDATE_OPS manually to mimic
      # behavior of TF1 batch norm layer for use in control dependencies.
      for u in self.updates:
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, u)
    except AttributeError:
      pass
    return outputs
""",
        "",
        "Keras 3 builds a layer by the names of its call's arguments; what this did was for TensorFlow 1",
    ),
    Edit(
        KERAS_OPTIMIZER,
        "import rank, size_op\n\n\n_PRE",
        "import rank, size_op\nfrom horovod.tensorflow.util import variable_of\n\n\n_PRE",
        "see the next edits",
    ),
    Edit(
        KERAS_OPTIMIZER,
        "return CallableList(super(self.__class__, self).variables())",
        "variables = super(self.__class__, self).variables\n"
        "                return CallableList(variables() if callable(variables) else variables)",
        "an optimizer of Keras 3 has a list",
    ),
    Edit(
        KERAS_OPTIMIZER,
        "self._local_vars.add(var.ref())",
        "self._local_vars.add(variable_of(var).ref())",
        "see the edits before",
    ),
    Edit(
        KERAS_OPTIMIZER,
        """            if backward_passes_per_step > 1:
                if hvd""",
        """            if backward_passes_per_step > 1:
                if hasattr(optimizer, 'apply'):
                    raise NotImplementedError('Keras 3 adds gradients up itself: give its optimizer '
                                              'gradient_accumulation_steps instead of backward_passes_per_step.')
                if hvd""",
        "what adds gradients up here doesn't know Keras 3's variables",
    ),
    Edit(
        KERAS_OPTIMIZER,
        """                return __filtered_reduce_grads(grads, vars)

        def apply_""",
        """                return __filtered_reduce_grads(grads, vars)

        def apply(self, grads, trainable_variables=None):
            # All that Keras 3 calls, by itself or by way of `apply_gradients`.
            if trainable_variables is None:
                trainable_variables = self._trainable_variables
            trainable_variables = list(trainable_variables)
            grads = self._allreduce(list(grads), [variable_of(var) for var in trainable_variables])
            super(self.__class__, self).apply(grads, trainable_variables)

        def apply_""",
        "every worker would train for itself, without an error, since Keras 3 no longer calls what averaged",
    ),
    Edit(
        KERAS_CALLBACKS,
        "import horovod.tensorflow as hvd\nimport tensorflow",
        "import horovod.tensorflow as hvd\nfrom horovod.tensorflow.util import variable_of\nimport tensorflow",
        "see the next edits",
    ),
    Edit(
        KERAS_CALLBACKS,
        "self._local_vars.add(var.ref())",
        "self._local_vars.add(variable_of(var).ref())",
        "see the edits before",
    ),
    Edit(
        KERAS_CALLBACKS,
        "if var.ref() not in",
        "if variable_of(var).ref() not in",
        "see the edits before",
    ),
    Edit(
        KERAS_CALLBACKS,
        "hvd.broadcast_variables(self.model.optimizer.variables(),",
        """variables = self.model.optimizer.variables
                hvd.broadcast_variables(variables() if callable(variables) else variables,""",
        "an optimizer of Keras 3 has a list",
    ),
    Edit(
        KERAS_CALLBACKS,
        "hvd.allreduce(self.backend.constant(value, name=metric)).numpy()",
        "hvd.allreduce(tf.constant(value, name=metric)).numpy()",
        "Keras 3's backend makes no constants",
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
