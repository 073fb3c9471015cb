# rubato_own: what Rubato's own sources are compiled with. Internal, never exported: a user's warnings
# and how a user's code computes are the user's choice.
add_library(rubato_own INTERFACE)
target_compile_options(rubato_own INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<BOOL:${RUBATO_WERROR}>:-Werror>
  # "Same seed, same result" holds across compilers only if none of them fuses a*b+c on its own.
  -ffp-contract=off
  # Less often collected, g++'s memory takes a tenth less time, and up to 1.3 GB.
  "$<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=200;--param=ggc-min-heapsize=400000>"
  # g++ 12 sees overlapping copies in `"text" + std::string` where there are none (GCC bug 105651), and
  # writes beyond the end inside of fmt, and outside of bounds where vectors of bytes grow.
  "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds>")
