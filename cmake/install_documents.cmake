# install(): what is read. The folders keep their places towards each other; the headers are elsewhere than in the sources.
file(RELATIVE_PATH headers_from_documents ${CMAKE_INSTALL_FULL_DOCDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR})

# document: relative to the sources. Its links to headers, `](include/…)` with `../` for each folder that it is in, lead
# to where they are installed.
function(install_document document)
  cmake_path(GET document PARENT_PATH folder)
  string(REGEX REPLACE "[^/]+" ".." up "${folder}")
  if(up)
    string(APPEND up "/")
  endif()
  file(READ ${PROJECT_SOURCE_DIR}/${document} text)
  string(REPLACE "](${up}include/" "](${up}${headers_from_documents}/" text "${text}")
  file(WRITE ${PROJECT_BINARY_DIR}/documents/${document} "${text}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${document})
  install(FILES ${PROJECT_BINARY_DIR}/documents/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder}
    COMPONENT rubato_development)
endfunction()

install_document(README.md)
install_document(examples/README.md)
install_document(bench/README.md)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT rubato_development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT rubato_development
  FILES_MATCHING PATTERN "[0-9]*.cpp")
