# rubato_warnings: the warnings of Rubato's own sources. Internal, never exported: what a user's
# compiler says about a user's code is the user's choice.
add_library(rubato_warnings INTERFACE)
target_compile_options(rubato_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<BOOL:${RUBATO_WERROR}>:-Werror>
  # g++ 12 sees overlapping copies in `"text" + std::string` where there are none (GCC bug 105651), and
  # writes beyond the end inside of fmt, and outside of bounds where vectors of bytes grow.
  "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds>")
