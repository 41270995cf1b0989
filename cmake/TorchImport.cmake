# SPDX-License-Identifier: Apache-2.0
# rueda_torch_import: the CPU libraries of the installed Python package torch. Why not find_package(Torch):
# frameworks/torch/README.md, Choices.
if(NOT RUEDA_TORCH_ROOT)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE rueda_torch_found OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT rueda_torch_found)
    message(FATAL_ERROR "${Python3_EXECUTABLE} has no package torch. Install it there (./dev setup), or give "
                        "-DRUEDA_TORCH_ROOT=<directory of the package torch>, or -DRUEDA_TORCH=OFF.")
  endif()
  set(RUEDA_TORCH_ROOT ${rueda_torch_found} CACHE PATH "Directory of the Python package torch" FORCE)
endif()

add_library(rueda_torch_import INTERFACE)
target_include_directories(rueda_torch_import SYSTEM INTERFACE
  ${RUEDA_TORCH_ROOT}/include ${RUEDA_TORCH_ROOT}/include/torch/csrc/api/include)
# The CUDA build of libtorch_cpu needs cudart and cupti at run time, which the wheels keep beside torch.
file(GLOB rueda_torch_cuda_dirs ${RUEDA_TORCH_ROOT}/../nvidia/cu*/lib)
target_link_libraries(rueda_torch_import INTERFACE
  ${RUEDA_TORCH_ROOT}/lib/libtorch_cpu.so ${RUEDA_TORCH_ROOT}/lib/libc10.so)
target_link_options(rueda_torch_import INTERFACE "LINKER:-rpath-link,${RUEDA_TORCH_ROOT}/lib")
foreach(dir ${rueda_torch_cuda_dirs})
  target_link_options(rueda_torch_import INTERFACE "LINKER:-rpath-link,${dir}")
endforeach()
