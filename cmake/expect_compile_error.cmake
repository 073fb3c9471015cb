# cmake -DCOMPILE=<compiler and flags> -DSOURCE=<file> -P expect_compile_error.cmake
# Fails unless SOURCE, whose first line is `// expect: <sentence>`, is refused by the compiler with
# that sentence in the message; and unless that is the only error, where it is `// expect alone: <sentence>`.
include(${CMAKE_CURRENT_LIST_DIR}/next_line.cmake)

file(READ ${SOURCE} text)
next_line(text first)
if(NOT first MATCHES "^// expect( alone)?: (.+)$")
  message(FATAL_ERROR "${SOURCE}: the first line must be '// expect: <sentence>'")
endif()
set(alone "${CMAKE_MATCH_1}")
set(sentence "${CMAKE_MATCH_2}")

execute_process(COMMAND ${COMPILE} -fsyntax-only ${SOURCE}
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
if(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but must not")
endif()
# The compiler also echoes source lines, as `  12 | text` or bare; only its own words count.
set(said FALSE)
set(rest "${output}")
while(NOT said AND NOT rest STREQUAL "")
  next_line(rest line)
  string(FIND "${line}" "${sentence}" position)
  if(NOT position EQUAL -1 AND line MATCHES "(error|note|required|because)")
    set(said TRUE)
  endif()
endwhile()
string(REGEX MATCHALL " error: " errors "${output}")
list(LENGTH errors count)
if(alone AND NOT count EQUAL 1)
  message("${output}")
  message(FATAL_ERROR "${SOURCE} is refused with ${count} errors, expected 1")
endif()
if(NOT said)
  message("${output}")
  message(FATAL_ERROR "${SOURCE} is refused, but nobody says '${sentence}'")
endif()
