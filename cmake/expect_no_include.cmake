# cmake -DCOMPILE=<compiler and flags> -DHEADER=<file> -DUNWANTED=<path> -P expect_no_include.cmake
# Fails if HEADER, directly or not, includes a file with UNWANTED in its path.
execute_process(COMMAND ${COMPILE} -M -x c++ ${HEADER}
  OUTPUT_VARIABLE files ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${HEADER} cannot be preprocessed:\n${errors}")
endif()
if(files MATCHES "[^ \n]*${UNWANTED}[^ \n]*")
  message(FATAL_ERROR "${HEADER} pulls in ${CMAKE_MATCH_0}")
endif()
