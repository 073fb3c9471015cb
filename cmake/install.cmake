# install(): library, headers, license and what find_package(rubato) reads.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rubato)

install(TARGETS rubato EXPORT rubatoTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT rubato_development
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT rubato_development
  FILE_SET bodies DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT rubato_development)
install(EXPORT rubatoTargets NAMESPACE rubato:: DESTINATION ${package_dir}
  COMPONENT rubato_development)

configure_package_config_file(cmake/rubatoConfig.cmake.in ${PROJECT_BINARY_DIR}/rubatoConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 every minor version may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rubatoConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/rubatoConfig.cmake ${PROJECT_BINARY_DIR}/rubatoConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT rubato_development)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT rubato_development)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT rubato_development
  FILES_MATCHING PATTERN README.md PATTERN "[0-9]*.cpp")

if(TARGET rubato-server)
  install(TARGETS rubato-launch rubato-server RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT rubato_tools)
endif()
if(TARGET rubato-bench)
  install(TARGETS rubato-bench rubato-bench-micro rubato-bench-reproduce RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT rubato_tools)
endif()
