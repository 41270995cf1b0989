# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: headers, libraries, programs, and a package for find_package(Rueda).
include(CMakePackageConfigHelpers)

foreach(layer core ops frameworks)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${layer} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rueda FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rueda DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(rueda_installed rueda)
if(RUEDA_TORCH)
  list(APPEND rueda_installed rueda_torch)
endif()
install(TARGETS ${rueda_installed} EXPORT RuedaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
