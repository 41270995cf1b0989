# SPDX-License-Identifier: Apache-2.0
# cmake -DBUILD=... -DSOURCE=... -DWORK=... -P run.cmake: installs, builds a user's project against it, runs that.
file(REMOVE_RECURSE ${WORK})
foreach(command IN ITEMS
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${WORK}/prefix"
    "${CMAKE_COMMAND};-S;${SOURCE}/tests/package;-B;${WORK}/build;-DCMAKE_PREFIX_PATH=${WORK}/prefix;-DEXAMPLE=${SOURCE}/examples/01_allreduce/main.cc"
    "${CMAKE_COMMAND};--build;${WORK}/build"
    "${WORK}/prefix/bin/ruedarun;-np;2;${WORK}/build/uses_rueda")
  execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${command}: ${status}\n${output}")
  endif()
endforeach()
message("${output}")
