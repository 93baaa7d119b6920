# The environment's own MPI needs no search, and is found at a path with spaces, where CMake's module cuts what the
# compilers for MPI say. Any other MPI is found by CMake's module.
if(ENVIRONMENT_MPI)
    set(MPI_FOUND TRUE)
    set(MPI_INCLUDE_PATH "${ENVIRONMENT_MPI}/include")
    set(MPI_LIBRARIES "${ENVIRONMENT_MPI}/lib/libmpi.so")
    set(MPI_CXX_INCLUDE_PATH "${MPI_INCLUDE_PATH}")
    set(MPI_CXX_LIBRARIES "${MPI_LIBRARIES}")
else()
    include("${CMAKE_ROOT}/Modules/FindMPI.cmake")
    set(MPI_INCLUDE_PATH "${MPI_CXX_INCLUDE_DIRS}")
    set(MPI_LIBRARIES "${MPI_CXX_LIBRARIES}")
endif()
# Gloo, which is C++, asks for MPI's C bindings, which are the same library.
set(MPI_C_FOUND ${MPI_FOUND})
