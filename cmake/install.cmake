# install(): library, headers, tools, documents, and what find_package(rubato) and pkg-config read. All of it may be
# moved afterwards, as what it says of its own places is relative.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rubato)

install(TARGETS rubato EXPORT rubatoTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT rubato_development
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT rubato_development
  FILE_SET bodies DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT rubato_development)
install(EXPORT rubatoTargets NAMESPACE rubato:: DESTINATION ${package_dir}
  COMPONENT rubato_development)
if(TARGET rubato_mpi)
  install(TARGETS rubato_mpi EXPORT rubatoMpiTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT rubato_development)
  install(EXPORT rubatoMpiTargets NAMESPACE rubato:: DESTINATION ${package_dir} COMPONENT rubato_development)
endif()

configure_package_config_file(cmake/rubatoConfig.cmake.in ${PROJECT_BINARY_DIR}/rubatoConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 every minor version may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rubatoConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rubatoConfig.cmake ${PROJECT_BINARY_DIR}/rubatoConfigVersion.cmake
  cmake/rubatoTorch.cmake cmake/rubatoMpi.cmake
  DESTINATION ${package_dir} COMPONENT rubato_development)
include(${CMAKE_CURRENT_LIST_DIR}/install_documents.cmake)

# pkg-config: rubato is the library; rubato-headers is for programs that compile its bodies themselves, with
# <rubato/src.hpp> in one file. The library being static, who links it links all that it needs.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
  OUTPUT_VARIABLE to_prefix)
# Boost and robin-map have no file for pkg-config; where compilers find them anyway nothing is said.
get_target_property(robin_map_include tsl::robin_map INTERFACE_INCLUDE_DIRECTORIES)
get_target_property(context_library Boost::context LOCATION)
cmake_path(GET context_library PARENT_PATH boost_libraries)
set(others_cflags "")
foreach(dir IN LISTS Boost_INCLUDE_DIRS robin_map_include)
  if(NOT dir IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    string(APPEND others_cflags " -I${dir}")
  endif()
endforeach()
set(others_libs "-lboost_context -pthread")
if(NOT boost_libraries IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
  string(PREPEND others_libs "-L${boost_libraries} ")
endif()
foreach(package rubato rubato-headers)
  set(own_libs "")
  set(what "${PROJECT_DESCRIPTION}")
  if(package STREQUAL "rubato")
    set(own_libs "-L\${libdir} -lrubato ")
  else()
    string(APPEND what " (without the library: one file of the program includes rubato/src.hpp)")
  endif()
  configure_file(cmake/rubato.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${pkgconfig_dir} COMPONENT rubato_development)
endforeach()
if(TARGET rubato_mpi)
  set(mpi_libs ${MPI_CXX_LIBRARIES})
  list(FILTER mpi_libs EXCLUDE REGEX mpi_cxx)  # the bindings for C++, which nobody calls
  list(JOIN mpi_libs " " mpi_libs)
  configure_file(cmake/rubato-mpi.pc.in ${PROJECT_BINARY_DIR}/rubato-mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/rubato-mpi.pc DESTINATION ${pkgconfig_dir} COMPONENT rubato_development)
endif()

if(TARGET rubato-server)
  install(TARGETS rubato-launch rubato-server RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT rubato_tools)
endif()
if(TARGET rubato-bench)
  install(TARGETS rubato-bench rubato-bench-micro rubato-bench-reproduce
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT rubato_bench)
endif()
if(TARGET rubato-bench-mpi)
  install(TARGETS rubato-bench-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT rubato_bench)
endif()
