# cmake -DPROGRAM=<command> -DREASON=<regular expression> -P expect_failure.cmake
# Runs PROGRAM and fails unless that does, and says why.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
message("${output}")
if(result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} succeeded, but was to fail")
endif()
if(NOT output MATCHES "${REASON}")
  message(FATAL_ERROR "${PROGRAM} does not say why it failed, expected '${REASON}'")
endif()
