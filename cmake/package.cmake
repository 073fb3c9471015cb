# CPack: `cmake --build <dir> --target package` makes rubato-<version>-<system>.tar.gz of all that is built and, on
# Debian and its kin, librubato-dev_<version>_<architecture>.deb, rubato-tools_….deb and rubato-bench_….deb.
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_VENDOR "The Rubato authors")
set(CPACK_PACKAGE_CONTACT "The Rubato authors")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" system)
set(CPACK_PACKAGE_FILE_NAME rubato-${PROJECT_VERSION}-${system})

set(CPACK_COMPONENTS_ALL rubato_development)
if(TARGET rubato-server)
  list(APPEND CPACK_COMPONENTS_ALL rubato_tools)
endif()
if(TARGET rubato-bench)
  list(APPEND CPACK_COMPONENTS_ALL rubato_bench)
endif()

set(CPACK_GENERATOR TGZ)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package_by_generator.cmake)
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
find_program(DPKG_QUERY dpkg-query)
find_program(FILE_PROGRAM file)  # by which CPack knows what is a program
mark_as_advanced(DPKG_SHLIBDEPS DPKG_QUERY FILE_PROGRAM)
if(DPKG_SHLIBDEPS AND DPKG_QUERY AND FILE_PROGRAM)
  list(APPEND CPACK_GENERATOR DEB)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_RUBATO_DEVELOPMENT_PACKAGE_NAME librubato-dev)
  set(CPACK_DEBIAN_RUBATO_DEVELOPMENT_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_RUBATO_DEVELOPMENT_PACKAGE_RECOMMENDS "g++ (>= 4:12) | clang (>= 1:14), rubato-tools")
  set(CPACK_DEBIAN_RUBATO_DEVELOPMENT_PACKAGE_SUGGESTS "cmake (>= 3.24), pkg-config, rubato-bench")
  if(TARGET rubato_mpi)
    string(APPEND CPACK_DEBIAN_RUBATO_DEVELOPMENT_PACKAGE_SUGGESTS ", libopenmpi-dev")
  endif()
  set(CPACK_DEBIAN_RUBATO_DEVELOPMENT_DESCRIPTION
    "The static library, its headers, and what find_package and pkg-config read.")
  set(CPACK_DEBIAN_RUBATO_TOOLS_DESCRIPTION "rubato-launch and rubato-server, for runs of several processes.")
  set(CPACK_DEBIAN_RUBATO_BENCH_DESCRIPTION "rubato-bench, which compares protocols on a cluster that one describes.")
  foreach(tools tools bench)
    string(TOUPPER ${tools} part)
    set(CPACK_DEBIAN_RUBATO_${part}_PACKAGE_NAME rubato-${tools})
    set(CPACK_DEBIAN_RUBATO_${part}_PACKAGE_SECTION science)
    set(CPACK_DEBIAN_RUBATO_${part}_PACKAGE_SHLIBDEPS ON)  # depends on the libraries that they are linked with
  endforeach()
endif()

# What the headers, the library and the CMake package need: a .deb asks for the packages that have these files.
set(used_files ${Boost_CONFIG} ${boost_headers_DIR}/boost_headers-config.cmake
  ${boost_context_DIR}/boost_context-config.cmake ${Eigen3_CONFIG} ${tsl-robin-map_CONFIG} ${fmt_CONFIG}
  ${OPENSSL_INCLUDE_DIR}/openssl/ssl.h ${ZLIB_INCLUDE_DIRS}/zlib.h)
configure_file(cmake/package_by_generator.cmake.in ${PROJECT_BINARY_DIR}/package_by_generator.cmake @ONLY)

include(CPack)
