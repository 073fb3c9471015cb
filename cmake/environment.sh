# shellcheck shell=bash
# Sourced by the scripts of this project. Sets `root` and how to build: all cores, and ccache where
# there is one.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$jobs}
# One more than there are cores: tests of processes mostly wait.
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$((jobs + 1))}
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
  # Without these ccache passes by every source that uses a precompiled header.
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros,include_file_mtime,include_file_ctime}
fi
