"""Edits with which Horovod 0.28.1 builds today, on CPUs and for NVIDIA GPUs."""

from horovod_impl.building.edits.edit import DRIVER_SERVICE, GLOO_RUN, LAUNCH, Edit

XLA = 'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n'
STANDARD = "set(CMAKE_CXX_STANDARD %d)"
TENSORFLOW = "horovod/tensorflow/CMakeLists.txt"
MPI_RUN = "horovod/runner/mpi_run.py"

COMPILING = (
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
)
