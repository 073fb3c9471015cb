# Builds and runs test/consumer/main.cpp as a user's project would.
# KIND is `installed` (installs the build in RUBATO_BINARY_DIR to a fresh prefix and finds it with
# find_package), `source` (the include folder of RUBATO_SOURCE_DIR alone) or `subdirectory` (add_subdirectory of
# that), which compiles the program and does not link it.
set(work ${RUBATO_BINARY_DIR}/test/consumer/${KIND})
file(REMOVE_RECURSE ${work})

if(KIND STREQUAL "installed")
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${RUBATO_BINARY_DIR} --config ${CONFIG}
    --prefix ${work}/prefix --component rubato_development
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  list(PREPEND PREFIX_PATH ${work}/prefix)
endif()

execute_process(COMMAND ${CMAKE_COMMAND} -S ${RUBATO_SOURCE_DIR}/test/consumer/${KIND} -B ${work}/build
  -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${CONFIG}
  "-DCMAKE_PREFIX_PATH=${PREFIX_PATH}" -DRUBATO_SOURCE_DIR=${RUBATO_SOURCE_DIR}
  "-DCMAKE_CXX_FLAGS_DEBUG=-O0" --no-warn-unused-cli COMMAND_ERROR_IS_FATAL ANY)
if(KIND STREQUAL "subdirectory")
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build --config ${CONFIG} --target consumer
    COMMAND_ERROR_IS_FATAL ANY)
  return()
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build --config ${CONFIG}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${work}/build --build-config ${CONFIG}
  --output-on-failure --no-tests=error COMMAND_ERROR_IS_FATAL ANY)
