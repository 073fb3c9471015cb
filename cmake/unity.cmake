# With RUBATO_UNITY, sources of a folder are compiled eight at a time: they instantiate much the same. More would leave
# a core idle.

# rubato_unity_groups(<source>... [ALONE <source>...]): which ones. Names in their anonymous namespaces must then differ,
# or the file stands in ALONE.
function(rubato_unity_groups)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "ALONE")
  set(last "")
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    string(REGEX MATCH "^[^/]+" folder "${source}")
    if(NOT folder STREQUAL last)
      set(last ${folder})
      set(number 0)
    endif()
    math(EXPR group "${number} / 8")
    math(EXPR number "${number} + 1")
    if(NOT source IN_LIST arg_ALONE)
      set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/${source} PROPERTIES UNITY_GROUP ${folder}_${group})
    endif()
  endforeach()
endfunction()

# rubato_unity_targets(<target>...): of which they are sources.
function(rubato_unity_targets)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ${RUBATO_UNITY} UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # for which a name of one file shadows that of another in its group
    set_target_properties(${ARGN} PROPERTIES
      UNITY_BUILD_CODE_BEFORE_INCLUDE "#pragma clang diagnostic ignored \"-Wshadow\"")
  endif()
endfunction()

# rubato_see_through_precompiled_headers(<target>): lets ccache do so, when there is one.
function(rubato_see_through_precompiled_headers target)
  target_compile_options(${target} PUBLIC
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess> "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()
