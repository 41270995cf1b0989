# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: headers, libraries, programs, and a package for find_package(Rueda).
include(CMakePackageConfigHelpers)

set(rueda_layers core ops)
set(rueda_libraries rueda)
if(RUEDA_TORCH)
  list(APPEND rueda_layers frameworks)
  list(APPEND rueda_libraries rueda_torch)
  set(rueda_torch_script ${CMAKE_CURRENT_LIST_DIR}/TorchImport.cmake)
endif()
foreach(layer ${rueda_layers})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${layer} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rueda
    FILES_MATCHING PATTERN "*.h" PATTERN mpi EXCLUDE)
endforeach()
if(RUEDA_MPI)
  install(FILES ${PROJECT_SOURCE_DIR}/ops/mpi/communicator.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rueda/ops/mpi)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rueda DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(rueda_package ${CMAKE_INSTALL_LIBDIR}/cmake/Rueda)
install(TARGETS ${rueda_libraries} EXPORT RuedaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT RuedaTargets NAMESPACE Rueda:: DESTINATION ${rueda_package})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/RuedaConfig.cmake.in ${PROJECT_BINARY_DIR}/RuedaConfig.cmake
  INSTALL_DESTINATION ${rueda_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RuedaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/RuedaConfig.cmake ${PROJECT_BINARY_DIR}/RuedaConfigVersion.cmake ${rueda_torch_script}
  DESTINATION ${rueda_package})
install(FILES ${PROJECT_SOURCE_DIR}/examples/data/squad_sample.json ${PROJECT_SOURCE_DIR}/examples/data/vocab.txt
  DESTINATION ${CMAKE_INSTALL_DATADIR}/rueda/examples)
