# SPDX-License-Identifier: Apache-2.0
# What every target shares: the language, the warnings, where programs land, the sanitizer.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)  # as libraries are, so that programs can share their precompiled headers
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# -O2 with line tables: what a stack trace needs, at a third of the size of full debug information.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# rueda_in_batches(TARGETS...): several sources are compiled as one, for headers (torch's above all) take longer than
# what is ours. What several of them define by the same name, be it in anonymous namespaces, the compiler refuses.
function(rueda_in_batches)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# rueda_share_torch_headers(TARGETS...): torch's headers are compiled once, for librueda_torch, and read in that form by
# these. Parsing them takes a source file longer than what is ours.
function(rueda_share_torch_headers)
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM rueda_torch)
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # so that ccache sees it
  endforeach()
endfunction()

# rueda_share_test_headers(TARGETS...): the same for tests. Their own code is compiled at -O0, in half of the time: what
# they test is in the libraries. A precompiled header holds for one level of optimisation, so they have one of their own.
function(rueda_share_test_headers)
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM rueda_torch_test_support)
    target_compile_options(${target} PRIVATE -O0 $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endforeach()
endfunction()

include(GNUInstallDirs)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)

add_library(rueda_options INTERFACE)
target_compile_options(rueda_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Werror=switch;-Werror=return-type;-Wno-missing-field-initializers>")
# No fused multiply-add behind our back: results must not depend on the machine (docs/decisions/011-algorithms.md).
target_compile_options(rueda_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off> $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>)
target_include_directories(rueda_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
# What librueda consists of: nobody is to put functions of theirs in the place of ours, so calls inside the library are
# direct (docs/decisions/012-shared-memory.md).
add_library(rueda_direct_calls INTERFACE)
target_compile_options(rueda_direct_calls INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-plt> $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fno-semantic-interposition>)
target_link_options(rueda_direct_calls INTERFACE -Wl,-Bsymbolic-functions)
if(RUEDA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR RUEDA_SANITIZE)
    message(FATAL_ERROR "RUEDA_FUZZ needs clang++ (here: ${CMAKE_CXX_COMPILER_ID}) and an empty RUEDA_SANITIZE")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
    -O1 -g -UNDEBUG)
  add_link_options(-fsanitize=address,undefined)
endif()
if(RUEDA_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's own checks make it warn of the standard library.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()
if(RUEDA_SANITIZE STREQUAL "thread")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread;-O1;-g1;-UNDEBUG>")
  add_link_options(-fsanitize=thread)
elseif(RUEDA_SANITIZE STREQUAL "address")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined;-fno-sanitize-recover=all;-fno-omit-frame-pointer;-O1;-g1;-UNDEBUG>")
  add_link_options(-fsanitize=address,undefined)
elseif(RUEDA_SANITIZE)
  message(FATAL_ERROR "RUEDA_SANITIZE is '${RUEDA_SANITIZE}'; it must be thread, address or empty")
endif()
