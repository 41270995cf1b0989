# SPDX-License-Identifier: Apache-2.0
# cmake -DBUILD=... -DSOURCE=... -DBUNDLE=... -DMPI_FOLDER=... -DTORCH=... -D_core=... -D_torch=... -P assemble.cmake: makes
# BUNDLE, a folder that checks Rueda on a machine with a GPU, python3 and torch, and nothing else of ours. MPI_FOLDER holds
# MPICH's bin and lib; _core and _torch are the sources of these modules of Python.
cmake_minimum_required(VERSION 3.25)
set(programs ruedarun rueda-bench device_conformance device_sharding train_bert)
set(launcher mpiexec.hydra hydra_pmi_proxy)
set(most_bytes 62914560)  # 60 MiB

file(REMOVE_RECURSE ${BUNDLE})
file(MAKE_DIRECTORY ${BUNDLE}/bin ${BUNDLE}/lib)

set(executables)
foreach(program ${programs})
  list(APPEND executables ${BUILD}/bin/${program})
endforeach()
foreach(program ${launcher})
  list(APPEND executables ${MPI_FOLDER}/bin/${program})
endforeach()
file(GLOB ours ${BUILD}/lib/librueda.so.? ${BUILD}/lib/librueda_mpi.so ${BUILD}/lib/librueda_torch.so.?)
set(host_waits ${BUILD}/lib/libhost_waits.so)

# The system's C library stays where it is; torch's libraries, and NVIDIA's, are those of the machine's own torch.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${executables} LIBRARIES ${ours} ${host_waits}
  RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
  DIRECTORIES ${BUILD}/lib ${MPI_FOLDER}/lib ${TORCH}/lib
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|util|pthread|gcc_s|stdc\\+\\+)\\.so" "^lib(torch|c10|gomp|cuda|cudart|cupti|nccl)")
if(missing)
  message(FATAL_ERROR "no library is found for ${missing}, which the bundle's programs need")
endif()
list(APPEND libraries ${ours} ${host_waits})
list(REMOVE_DUPLICATES libraries)

find_program(STRIP strip REQUIRED)
# Without its symbols, and without the paths of this build.
function(take file folder)
  get_filename_component(name ${file} NAME)
  file(REAL_PATH ${file} real)
  execute_process(COMMAND ${STRIP} -o ${BUNDLE}/${folder}/${name} ${real} COMMAND_ERROR_IS_FATAL ANY)
  file(RPATH_REMOVE FILE ${BUNDLE}/${folder}/${name})
endfunction()
foreach(executable ${executables})
  take(${executable} bin)
endforeach()
foreach(library ${libraries})
  take(${library} lib)
endforeach()

# ICU's tables alone are half of all bytes, and become a third. check unpacks them.
execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf lib.tar.gz lib WORKING_DIRECTORY ${BUNDLE} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${BUNDLE}/lib)

# The sources of the Python package, which check compiles: the machine has another Python than this one.
foreach(part core ops frameworks include)
  file(COPY ${SOURCE}/${part} DESTINATION ${BUNDLE}/source FILES_MATCHING PATTERN "*.h")
endforeach()
file(COPY ${SOURCE}/python/src ${SOURCE}/python/rueda ${SOURCE}/python/rueda_backend DESTINATION ${BUNDLE}/source/python PATTERN "__pycache__" EXCLUDE)
foreach(module _core _torch)
  list(TRANSFORM ${module} REPLACE "^.*src/" "" OUTPUT_VARIABLE files)
  list(FILTER files INCLUDE REGEX "^[a-z_]+\\.cc$")
  list(JOIN files " " files)
  file(APPEND ${BUNDLE}/source/python/modules.txt "${module} ${files}\n")
endforeach()
file(COPY ${BUILD}/python/rueda/_build.py DESTINATION ${BUNDLE}/source/python/rueda)
file(COPY ${SOURCE}/examples/03_python DESTINATION ${BUNDLE} PATTERN "__pycache__" EXCLUDE)
file(COPY ${SOURCE}/examples/data/ DESTINATION ${BUNDLE}/share/rueda/examples PATTERN "*.py" EXCLUDE)
file(STRINGS ${TORCH}/version.py torch_version REGEX "^__version__ = ")
string(REGEX REPLACE "^__version__ = '([^'+]+).*" "\\1" torch_version "${torch_version}")
file(WRITE ${BUNDLE}/torch-version "${torch_version}\n")
file(GLOB scripts ${SOURCE}/tests/gpu/bundle/*.py)
list(FILTER scripts EXCLUDE REGEX "bundle_test.py$")
file(COPY ${scripts} DESTINATION ${BUNDLE})
file(COPY ${SOURCE}/tests/gpu/bundle/check DESTINATION ${BUNDLE})

set(bytes 0)
file(GLOB_RECURSE files ${BUNDLE}/*)
foreach(file ${files})
  file(SIZE ${file} size)
  math(EXPR bytes "${bytes} + ${size}")
endforeach()
if(bytes GREATER most_bytes)
  message(FATAL_ERROR "${BUNDLE} has ${bytes} bytes; it may have ${most_bytes}")
endif()
math(EXPR mebibytes "(${bytes} + 1048575) / 1048576")
message(STATUS "${BUNDLE}: ${mebibytes} MiB")
