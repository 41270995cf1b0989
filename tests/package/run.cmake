# SPDX-License-Identifier: Apache-2.0
# cmake -DBUILD=... -DSOURCE=... -DWORK=... -DMPI_CXX_COMPILER=... -P run.cmake: installs, moves what was installed, builds
# users' projects against it and runs them; and what find_package says where it cannot be.
file(REMOVE_RECURSE ${WORK})
unset(ENV{LD_LIBRARY_PATH})
set(prefix ${WORK}/prefix)

# run(COMMAND...) must succeed; its output is `output`, in one line.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${status}\n${text}")
  endif()
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  set(output "${text}" PARENT_SCOPE)
endfunction()

# refused(WORDS CMAKE-ARGUMENTS...): the user's project is refused, in these words.
function(refused words)
  file(REMOVE_RECURSE ${WORK}/refused)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/tests/package -B ${WORK}/refused ${ARGN}
    RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  string(FIND "${text}" "${words}" at)
  if(status EQUAL 0 OR at EQUAL -1)
    message(FATAL_ERROR "${ARGN}: status ${status}, expected '${words}' in\n${text}")
  endif()
endfunction()

# expect(WORDS): in `output`.
function(expect words)
  string(FIND "${output}" "${words}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected '${words}' in\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
file(RENAME ${WORK}/installed ${prefix})

# The project in the README, as it stands there.
file(READ ${SOURCE}/README.md readme)
foreach(pair "cpp main.cc" "cmake CMakeLists.txt")
  separate_arguments(pair)
  list(POP_FRONT pair language file)
  if(NOT readme MATCHES "```${language}\n([^`]*)```")
    message(FATAL_ERROR "README.md has no block ${language}")
  endif()
  file(WRITE ${WORK}/readme/${file} "${CMAKE_MATCH_1}")
endforeach()
run(${CMAKE_COMMAND} -S ${WORK}/readme -B ${WORK}/readme/build -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK}/readme/build)
run(${prefix}/bin/ruedarun -np 2 ${WORK}/readme/build/train)

set(programs ${WORK}/programs)
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/package -B ${programs} -DCMAKE_PREFIX_PATH=${prefix}
  -DMPI_CXX_COMPILER=${MPI_CXX_COMPILER})
run(${CMAKE_COMMAND} --build ${programs})
run(${prefix}/bin/ruedarun -np 2 ${programs}/allreduce)
run(${prefix}/bin/ruedarun -np 2 ${programs}/agree)
foreach(rank 0 1)
  expect("rank ${rank} of 2: the ranks agree")
endforeach()

set(other ${WORK}/torch)
file(WRITE ${other}/version.py "__version__ = '1.13.1+cpu'\n")
file(WRITE ${other}/lib/libtorch_cpu.so "")
refused("RUEDA_TORCH_ROOT='${WORK}/nowhere' is no directory of a Python package torch"
  -DCMAKE_PREFIX_PATH=${prefix} -DRUEDA_TORCH_ROOT=${WORK}/nowhere)
refused("RUEDA_TORCH_ROOT='${other}' is torch 1.13.1+cpu, and Rueda was built with torch"
  -DCMAKE_PREFIX_PATH=${prefix} -DRUEDA_TORCH_ROOT=${other})
refused("Rueda has no component 'nccl'" -DCMAKE_PREFIX_PATH=${prefix} -DCOMPONENTS=nccl)
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/package -B ${WORK}/refused -DCMAKE_PREFIX_PATH=${prefix}
  -DRUEDA_TORCH_ROOT=${other} -DCOMPONENTS=rueda)

set(config ${prefix}/lib/cmake/Rueda/RuedaConfig.cmake)
file(READ ${config} text)
string(REGEX REPLACE "rueda_mpi_library \"[^\"]+\"" "rueda_mpi_library \"/gone/libmpi.so\"" text "${text}")
file(WRITE ${config} "${text}")
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/package -B ${WORK}/refused -DCMAKE_PREFIX_PATH=${prefix} -DCOMPONENTS=rueda)
expect("MPI's library /gone/libmpi.so, which is not there")

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/plain -DRUEDA_TORCH=OFF -DRUEDA_MPI=OFF -DRUEDA_TESTS=OFF)
refused("Rueda was built without torch" -DRueda_DIR=${WORK}/plain -DCOMPONENTS=torch)
