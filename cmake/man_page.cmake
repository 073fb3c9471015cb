# rubato_add_man_page(PROGRAM SUMMARY [COMMAND...]): its page is what `PROGRAM --help` and `PROGRAM COMMAND --help`
# say, so that it cannot say anything else. Part of `all`, and installed beside the program.
# As a script (`cmake -P`), writes one page, to PAGE.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(rubato_add_man_page program summary component)
    if(NOT RUBATO_INSTALL OR CMAKE_CROSSCOMPILING)  # nothing to install it with, or to run the program on
      return()
    endif()
    include(GNUInstallDirs)
    set(page ${CMAKE_CURRENT_BINARY_DIR}/${program}.1)
    add_custom_command(OUTPUT ${page}
      COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${program}> "-DSUMMARY=${summary}" "-DCOMMANDS=${ARGN}"
        -DVERSION=${PROJECT_VERSION} -DPAGE=${page} -P ${PROJECT_SOURCE_DIR}/cmake/man_page.cmake
      DEPENDS ${program} ${PROJECT_SOURCE_DIR}/cmake/man_page.cmake
      COMMENT "Writing ${program}.1" VERBATIM)
    add_custom_target(${program}-man ALL DEPENDS ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component} OPTIONAL)
  endfunction()
  return()
endif()

# What roff would take for commands of its own.
function(as_roff text result)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

cmake_path(GET PROGRAM STEM name)
string(TOUPPER ${name} title)
as_roff("${name}" escaped_name)
as_roff("${SUMMARY}" summary)
set(text ".TH ${title} 1 \"\" \"Rubato ${VERSION}\"\n.SH NAME\n${escaped_name} \\- ${summary}\n")
foreach(command IN ITEMS "" ${COMMANDS})
  execute_process(COMMAND ${PROGRAM} ${command} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
  as_roff("${help}" help)
  set(heading DESCRIPTION)
  if(command)
    string(TOUPPER "${name} ${command}" heading)
  endif()
  string(APPEND text ".SH ${heading}\n.nf\n${help}\n.fi\n")
endforeach()
file(WRITE ${PAGE} "${text}")
