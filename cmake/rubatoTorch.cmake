# rubato::torch: rubato/torch.hpp with what it needs of LibTorch, where that is found. Needs rubato::rubato; read by
# Rubato's own build and by find_package(rubato COMPONENTS torch).
# Sets rubato_torch_FOUND, and rubato_torch_NOT_FOUND_MESSAGE to what is missing.
set(rubato_torch_FOUND FALSE)
set(rubato_torch_NOT_FOUND_MESSAGE "LibTorch 1.13 or newer was not found (Debian: apt-get install libtorch-dev)")

# In a function, because Torch's file sets dozens of variables; and quietly, because QUIET does not keep it from
# telling what it finds.
function(rubato_find_torch)
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  find_package(Torch 1.13 QUIET)
  if(NOT Torch_FOUND)
    return()
  endif()
  if("${TORCH_CXX_FLAGS}" MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    set(rubato_torch_NOT_FOUND_MESSAGE "the LibTorch that was found is built for the old C++ ABI" PARENT_SCOPE)
    return()
  endif()
  if(NOT TARGET rubato_libtorch)
    add_library(rubato_libtorch INTERFACE IMPORTED)  # imported, so that its headers are a system's
    set_target_properties(rubato_libtorch PROPERTIES
      INTERFACE_LINK_LIBRARIES "${TORCH_LIBRARIES}"
      INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}")
    add_library(rubato::torch INTERFACE IMPORTED)
    set_target_properties(rubato::torch PROPERTIES INTERFACE_LINK_LIBRARIES "rubato::rubato;rubato_libtorch")
  endif()
  set(rubato_torch_FOUND TRUE PARENT_SCOPE)
endfunction()
rubato_find_torch()
