# SPDX-License-Identifier: Apache-2.0
# RUEDA_TORCH_ROOT, when it is not given: asked of Python3.
if(NOT RUEDA_TORCH_ROOT)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # With -E too: pip hides what is installed from a build by the environment.
  foreach(rueda_python_flags "" "-E")
    if(NOT rueda_torch_found)
      execute_process(
        COMMAND ${Python3_EXECUTABLE} ${rueda_python_flags} -c
          "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
        OUTPUT_VARIABLE rueda_torch_found OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
  endforeach()
  if(NOT rueda_torch_found)
    message(FATAL_ERROR "${Python3_EXECUTABLE} has no package torch. Install it there (./dev setup), or give "
                        "-DRUEDA_TORCH_ROOT=<directory of the package torch>, or -DRUEDA_TORCH=OFF.")
  endif()
  set(RUEDA_TORCH_ROOT ${rueda_torch_found} CACHE PATH "Directory of the Python package torch" FORCE)
endif()
