# lockstep_library(NAME [TORCH] [FOLDER path] [DEPENDS folder-targets...] [LINK libraries...])
# A static library of every .cpp in the current folder (or FOLDER). Without TORCH it has no libtorch on its include path,
# so that the compiler keeps the pure parts pure.
set(LOCKSTEP_SOURCE_ROOT ${CMAKE_CURRENT_LIST_DIR}/../src)

add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers -Winvalid-pch $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)

function(lockstep_library name)
  cmake_parse_arguments(arg "TORCH" "FOLDER" "DEPENDS;LINK" ${ARGN})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FOLDER})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/detail/*.cpp)
  if(NOT sources)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.cpp "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.cpp)
  endif()
  set(target lockstep_${name})
  add_library(${target} STATIC ${sources})
  add_library(lockstep::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${LOCKSTEP_SOURCE_ROOT}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)  # users' projects need it for our headers
  list(TRANSFORM arg_DEPENDS PREPEND lockstep_)
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS} PRIVATE $<BUILD_INTERFACE:lockstep_warnings> ${arg_LINK})
  if(arg_TORCH)
    target_link_libraries(${target} PUBLIC lockstep_torch)
    lockstep_use_pch(${target})
    # Each source pays seconds for libtorch's inline templates, so a folder is compiled as few sources.
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${LOCKSTEP_UNITY} UNITY_BUILD_BATCH_SIZE 8)
    target_compile_options(${target} PRIVATE $<$<BOOL:${LOCKSTEP_UNITY}>:-Wno-subobject-linkage>)  # said of any included file
  else()
    target_compile_options(${target} PRIVATE -Wconversion)
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_LIBRARIES ${target})
endfunction()

# The one narrow precompiled header, shared by every target that sees libtorch.
function(lockstep_use_pch target)
  if(NOT LOCKSTEP_PCH)
    return()
  endif()
  if(NOT TARGET lockstep_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/pch/pch.cpp "")
    add_library(lockstep_pch STATIC ${CMAKE_BINARY_DIR}/pch/pch.cpp)
    target_link_libraries(lockstep_pch PRIVATE lockstep_torch lockstep_warnings)
    target_precompile_headers(lockstep_pch PRIVATE
      <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <torch/nn/module.h> <functional> <string> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM lockstep_pch)
endfunction()
