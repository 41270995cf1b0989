# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: headers, libraries, programs, and a package for find_package(Rueda).
include(CMakePackageConfigHelpers)
set(rueda_package ${CMAKE_INSTALL_LIBDIR}/cmake/Rueda)
set(rueda_components rueda)
set(rueda_absent_headers)
if(NOT RUEDA_MPI)
  list(APPEND rueda_absent_headers PATTERN mpi.h EXCLUDE)
endif()

# Installed libraries find one another wherever the prefix is moved to; torch and MPI where the build found them.
set_target_properties(rueda PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS rueda EXPORT RuedaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(RUEDA_MPI)  # librueda looks for it in its own folder
  set_target_properties(rueda_mpi PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS rueda_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT RuedaTargets NAMESPACE Rueda:: DESTINATION ${rueda_package})
if(RUEDA_TORCH)
  list(APPEND rueda_components torch)
  set_target_properties(rueda_torch PROPERTIES EXPORT_NAME torch INSTALL_RPATH "$ORIGIN;${RUEDA_TORCH_ROOT}/lib")
  install(TARGETS rueda_torch EXPORT RuedaTorchTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT RuedaTorchTargets NAMESPACE Rueda:: DESTINATION ${rueda_package})
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/TorchImport.cmake DESTINATION ${rueda_package})
else()
  list(APPEND rueda_absent_headers PATTERN torch EXCLUDE PATTERN torch.h EXCLUDE)
endif()

# The public headers, as they are.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rueda ${PROJECT_BINARY_DIR}/generated/rueda
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" ${rueda_absent_headers})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/RuedaConfig.cmake.in ${PROJECT_BINARY_DIR}/RuedaConfig.cmake
  INSTALL_DESTINATION ${rueda_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RuedaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/RuedaConfig.cmake ${PROJECT_BINARY_DIR}/RuedaConfigVersion.cmake DESTINATION ${rueda_package})
install(FILES ${PROJECT_SOURCE_DIR}/examples/data/squad_sample.json ${PROJECT_SOURCE_DIR}/examples/data/squad2_sample.json
  ${PROJECT_SOURCE_DIR}/examples/data/nq_sample.jsonl ${PROJECT_SOURCE_DIR}/examples/data/text_sample.txt
  ${PROJECT_SOURCE_DIR}/examples/data/vocab.txt
  DESTINATION ${CMAKE_INSTALL_DATADIR}/rueda/examples)
