# Takes the place of Horovod's module, which puts folders into strings that are cut at spaces.
execute_process(
    COMMAND ${PYTHON_EXECUTABLE} -c "import tensorflow as tf; print(tf.__version__); print(tf.sysconfig.get_include()); print(tf.sysconfig.get_lib()); print(';'.join(flag for flag in tf.sysconfig.get_compile_flags() if flag.startswith('-D')))"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "([^\n]+)\n([^\n]+)\n([^\n]+)\n([^\n]*)$" answer "${answer}")
set(Tensorflow_VERSION "${CMAKE_MATCH_1}")
set(Tensorflow_INCLUDE_DIRS "${CMAKE_MATCH_2}")
set(folder "${CMAKE_MATCH_3}")
string(REPLACE ";" " " Tensorflow_COMPILE_FLAGS "${CMAKE_MATCH_4}")

set(Tensorflow_LIBRARIES "${folder}/libtensorflow_framework.so.2" "${folder}/libtensorflow_cc.so.2")
set(Tensorflow_CXX11 TRUE)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Tensorflow REQUIRED_VARS Tensorflow_LIBRARIES VERSION_VAR Tensorflow_VERSION)
