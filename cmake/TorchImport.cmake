# SPDX-License-Identifier: Apache-2.0
# rueda_torch_import: the CPU libraries of the Python package torch in RUEDA_TORCH_ROOT, of which rueda_torch_version is
# the version; where they are not there, rueda_torch_problem says so. For the build and for the installed package. Why not
# find_package(Torch): docs/decisions/010-models-and-package.md.
set(rueda_torch_version "")
set(rueda_torch_problem "")
if(NOT EXISTS "${RUEDA_TORCH_ROOT}/lib/libtorch_cpu.so" OR NOT EXISTS "${RUEDA_TORCH_ROOT}/version.py")
  set(rueda_torch_problem "RUEDA_TORCH_ROOT='${RUEDA_TORCH_ROOT}' is no directory of a Python package torch (with version.py, \
include/ and lib/libtorch_cpu.so)")
  return()
endif()
file(STRINGS "${RUEDA_TORCH_ROOT}/version.py" rueda_torch_version REGEX "^__version__ = ")
string(REGEX REPLACE "^.*'(.*)'.*$" "\\1" rueda_torch_version "${rueda_torch_version}")
if(TARGET rueda_torch_import)
  return()
endif()

add_library(rueda_torch_import INTERFACE IMPORTED)
target_include_directories(rueda_torch_import SYSTEM INTERFACE
  ${RUEDA_TORCH_ROOT}/include ${RUEDA_TORCH_ROOT}/include/torch/csrc/api/include)
target_link_libraries(rueda_torch_import INTERFACE
  ${RUEDA_TORCH_ROOT}/lib/libtorch_cpu.so ${RUEDA_TORCH_ROOT}/lib/libc10.so)
# The CUDA build of libtorch_cpu needs cudart and cupti at run time, which the wheels keep beside torch.
file(GLOB rueda_torch_cuda_dirs ${RUEDA_TORCH_ROOT}/../nvidia/cu*/lib)
foreach(dir ${RUEDA_TORCH_ROOT}/lib ${rueda_torch_cuda_dirs})
  target_link_options(rueda_torch_import INTERFACE "LINKER:-rpath-link,${dir}")
endforeach()
