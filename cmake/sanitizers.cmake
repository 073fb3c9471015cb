# rubato_sanitize(target): builds a library with RUBATO_SANITIZE. The flags are public because an
# instrumented archive links only into programs that bring the sanitizer's run-time along.
# For the thread sanitizer -O1 at least: without inlining, functions return on another fiber than they were
# called on, and its own stack of calls overflows.
if(RUBATO_SANITIZE STREQUAL "address")
  # A null pointer ends the program without a look before each use, too, and of casts to derived classes there are few:
  # a fifth of the time that the library takes to compile.
  set(sanitizer_flags -fsanitize=address,undefined -fno-sanitize=null,vptr -fno-sanitize-recover=all)
  set(sanitizer_link_flags -no-pie)  # else a program has a million places to correct as it starts
elseif(RUBATO_SANITIZE STREQUAL "thread")
  set(sanitizer_flags -fsanitize=thread)
elseif(RUBATO_SANITIZE)
  message(FATAL_ERROR "RUBATO_SANITIZE is '${RUBATO_SANITIZE}', but must be address, thread or empty")
endif()

# Programs with a sanitizer are large: lld links them in a sixth of the time, where it is there.
set(sanitizer_linker "")
if(RUBATO_SANITIZE)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld RUBATO_HAS_LLD)
  if(RUBATO_HAS_LLD)
    set(sanitizer_linker -fuse-ld=lld)
  endif()
endif()

function(rubato_sanitize target)
  if(RUBATO_SANITIZE)
    target_compile_options(${target} PUBLIC ${sanitizer_flags} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC ${sanitizer_flags} ${sanitizer_linker} ${sanitizer_link_flags})
  endif()
endfunction()

# rubato_sanitize_less(target): what uses the library, without a look at how each pointer is aligned, which takes long
# to compile. Functions of headers may then be these in the library's place; in the fuzzers, which read what comes from
# outside, that is looked at.
function(rubato_sanitize_less target)
  if(RUBATO_SANITIZE STREQUAL "address")
    target_compile_options(${target} PUBLIC -fno-sanitize=alignment)
  endif()
endfunction()
