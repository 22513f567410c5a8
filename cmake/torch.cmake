# The only place that knows how libtorch is found: the wheel of a Python environment.
# find_package(Torch) refuses a CUDA wheel where no full toolkit is installed, so the targets are defined here:
#   lockstep_torch       headers, definitions and libraries of libtorch
#   lockstep_torch_cuda  the same with the CUDA parts, only where the wheel has them
# Sets LOCKSTEP_TORCH_PYTHON, LOCKSTEP_TORCH_VERSION, LOCKSTEP_TORCH_ROOT, LOCKSTEP_TORCH_HAS_CUDA and LOCKSTEP_GLOO_CHECKED.
if(TARGET lockstep_torch)
  return()
endif()

set(_lockstep_pythons ${LOCKSTEP_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/../.venv/bin/python python3)
foreach(_python IN LISTS _lockstep_pythons)
  execute_process(
    COMMAND ${_python} -c "import importlib.util as u, pathlib; s = u.find_spec('torch'); r = pathlib.Path(s.origin).parent; print(r); print((r / 'version.py').read_text())"
    OUTPUT_VARIABLE _lockstep_found ERROR_QUIET RESULT_VARIABLE _lockstep_failed)
  if(NOT _lockstep_failed)
    set(LOCKSTEP_TORCH_PYTHON ${_python})
    if(IS_ABSOLUTE ${_python})
      cmake_path(NORMAL_PATH LOCKSTEP_TORCH_PYTHON)
    endif()
    break()
  endif()
endforeach()
if(_lockstep_failed)
  message(FATAL_ERROR "no libtorch: none of these Pythons has the package torch: ${_lockstep_pythons}. "
                      "Run 'make setup', or pass -DLOCKSTEP_PYTHON=/path/to/python")
endif()
string(REGEX MATCH "^[^\n]+" LOCKSTEP_TORCH_ROOT "${_lockstep_found}")
string(REGEX MATCH "__version__ = '([^']+)'" _ "${_lockstep_found}")
set(LOCKSTEP_TORCH_VERSION ${CMAKE_MATCH_1})
message(STATUS "libtorch ${LOCKSTEP_TORCH_VERSION} in ${LOCKSTEP_TORCH_ROOT}")

# The declarations of Gloo in comm/backend/gloo_declarations were checked against these versions only.
set(LOCKSTEP_GLOO_CHECKED OFF)
if(LOCKSTEP_TORCH_VERSION MATCHES "^2\\.(13\\.0|14\\.1)(\\+|$)")
  set(LOCKSTEP_GLOO_CHECKED ON)
endif()

add_library(lockstep_torch INTERFACE IMPORTED GLOBAL)
set(_lib ${LOCKSTEP_TORCH_ROOT}/lib)
target_include_directories(lockstep_torch SYSTEM INTERFACE
  ${LOCKSTEP_TORCH_ROOT}/include ${LOCKSTEP_TORCH_ROOT}/include/torch/csrc/api/include)
target_compile_definitions(lockstep_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(lockstep_torch INTERFACE ${_lib}/libtorch.so ${_lib}/libtorch_cpu.so ${_lib}/libc10.so)
target_link_options(lockstep_torch INTERFACE -Wl,-rpath,${_lib})

set(LOCKSTEP_TORCH_HAS_CUDA OFF)
if(EXISTS ${_lib}/libtorch_cuda.so)
  set(LOCKSTEP_TORCH_HAS_CUDA ON)
  file(GLOB _nvidia ${LOCKSTEP_TORCH_ROOT}/../nvidia/*/include)
  add_library(lockstep_torch_cuda INTERFACE IMPORTED GLOBAL)
  target_include_directories(lockstep_torch_cuda SYSTEM INTERFACE ${_nvidia})
  target_compile_definitions(lockstep_torch_cuda INTERFACE USE_CUDA USE_C10D_NCCL)
  target_link_libraries(lockstep_torch_cuda INTERFACE lockstep_torch
    -Wl,--no-as-needed ${_lib}/libtorch_cuda.so -Wl,--as-needed ${_lib}/libc10_cuda.so)
endif()
if(LOCKSTEP_CUDA AND NOT LOCKSTEP_TORCH_HAS_CUDA)
  message(FATAL_ERROR "LOCKSTEP_CUDA is on, but torch ${LOCKSTEP_TORCH_VERSION} in ${LOCKSTEP_TORCH_ROOT} is a CPU wheel. "
                      "Install a CUDA wheel of torch there, or configure without LOCKSTEP_CUDA")
endif()
if(LOCKSTEP_CUDA)
  # The wheel brings CUDA's headers but for those of the compiler and of its C++ library.
  foreach(_header_package crt/host_config.h=nvidia-cuda-crt nv/target=nvidia-cuda-cccl)
    string(REPLACE "=" ";" _header_package ${_header_package})
    list(GET _header_package 0 _header)
    list(GET _header_package 1 _package)
    find_path(_folder ${_header} HINTS ${_nvidia} /usr/local/cuda/include PATH_SUFFIXES cccl NO_CACHE)
    if(NOT _folder)
      message(FATAL_ERROR "LOCKSTEP_CUDA is on, but ${_header} is in none of ${_nvidia} /usr/local/cuda/include. "
                          "Install the Python package ${_package} of the wheel's CUDA version, or a CUDA toolkit")
    endif()
    target_include_directories(lockstep_torch_cuda SYSTEM INTERFACE ${_folder})
    unset(_folder)
  endforeach()
endif()
