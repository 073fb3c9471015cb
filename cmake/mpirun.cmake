# rubato_mpirun(<variable> <ranks>): the command before a program that runs it as so many ranks of MPI, also as root and
# on fewer processors, and where one process may not read another's memory, as in a container.
function(rubato_mpirun variable ranks)
  set(${variable} ${CMAKE_COMMAND} -E env
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_btl_vader_single_copy_mechanism=none
    ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} PARENT_SCOPE)
endfunction()
