# SPDX-License-Identifier: Apache-2.0
# rueda_examples_report: what a trainer shows while it runs: progress, and TensorBoard's event files. Without torch.
find_package(Protobuf REQUIRED)
protobuf_generate_cpp(rueda_event_sources rueda_event_headers ${CMAKE_CURRENT_LIST_DIR}/event.proto)

add_library(rueda_examples_report STATIC
  ${CMAKE_CURRENT_LIST_DIR}/event_file.cc
  ${CMAKE_CURRENT_LIST_DIR}/progress.cc
  ${rueda_event_sources})
target_include_directories(rueda_examples_report SYSTEM PRIVATE ${CMAKE_CURRENT_BINARY_DIR} ${Protobuf_INCLUDE_DIRS})
target_link_libraries(rueda_examples_report PRIVATE rueda_options fmt::fmt protobuf::libprotobuf-lite)
