# What rubato::mpi links: MPI::MPI_CXX, where it is found. Read by Rubato's own build and by
# find_package(rubato COMPONENTS mpi), which then has the target.
# Sets rubato_mpi_FOUND, and rubato_mpi_NOT_FOUND_MESSAGE to what is missing.
set(rubato_mpi_FOUND FALSE)
set(rubato_mpi_NOT_FOUND_MESSAGE "MPI 3 was not found (Debian: apt-get install openmpi-bin libopenmpi-dev)")
# Of the language that a program with Rubato has anyway; only the functions of C are called.
set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI 3.0 QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  set(rubato_mpi_FOUND TRUE)
endif()
