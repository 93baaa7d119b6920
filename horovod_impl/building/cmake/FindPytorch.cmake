# Takes the place of Horovod's module: torch is asked once instead of eight times, and its include and library folders
# come as they are, where Horovod's module cuts them at spaces and looks for any CUDA toolkit that lies about.
execute_process(
    COMMAND ${PYTHON_EXECUTABLE} -c "import os, torch; print(torch.__version__); print(os.path.dirname(torch.__file__))"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "([^\n]+)\n([^\n]+)$" answer "${answer}")
set(Pytorch_VERSION "${CMAKE_MATCH_1}")
set(folder "${CMAKE_MATCH_2}")

set(Pytorch_INCLUDE_DIRS "${folder}/include" "${folder}/include/torch/csrc/api/include")
set(names c10 torch torch_cpu torch_python)
set(Pytorch_CUDA FALSE)
if(HOROVOD_GPU_OPERATIONS)
    set(Pytorch_CUDA TRUE)
    list(APPEND names c10_cuda torch_cuda)
endif()
set(Pytorch_ROCM FALSE)
set(Pytorch_LIBRARIES "")
foreach(name IN LISTS names)
    list(APPEND Pytorch_LIBRARIES "${folder}/lib/lib${name}.so")
endforeach()
# torch has had no other since 2.7.
set(Pytorch_CXX11 TRUE)
set(Pytorch_COMPILE_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pytorch REQUIRED_VARS Pytorch_LIBRARIES VERSION_VAR Pytorch_VERSION)
