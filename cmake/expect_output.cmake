# cmake -DPROGRAM=<file> -DEXPECTED=<file> -P expect_output.cmake
# Runs PROGRAM and fails unless it succeeds and its output has, in this order, a line for each line
# of EXPECTED, a CMake regular expression that must match the whole line. Lines that are not asked
# for may stand between. Blank lines and lines that start with # in EXPECTED say nothing.
include(${CMAKE_CURRENT_LIST_DIR}/next_line.cmake)

execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
message("${output}${errors}")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} failed: ${result}")
endif()

file(READ ${EXPECTED} expected)
while(NOT expected STREQUAL "")
  next_line(expected wanted)
  if(wanted STREQUAL "" OR wanted MATCHES "^#")
    continue()
  endif()
  set(found FALSE)
  while(NOT found AND NOT output STREQUAL "")
    next_line(output line)
    if(line MATCHES "^(${wanted})$")
      set(found TRUE)
    endif()
  endwhile()
  if(NOT found)
    message(FATAL_ERROR "the output has no line for this one of ${EXPECTED}, or not in its place:\n${wanted}")
  endif()
endwhile()
