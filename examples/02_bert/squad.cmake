# SPDX-License-Identifier: Apache-2.0
# rueda_squad: SQuAD data, features and metrics, without torch. bert_tokenize: the tokenizer as a program.
find_package(ICU GLOBAL REQUIRED COMPONENTS uc)

add_library(rueda_squad STATIC
  ${CMAKE_CURRENT_LIST_DIR}/squad.cc
  ${CMAKE_CURRENT_LIST_DIR}/features.cc
  ${CMAKE_CURRENT_LIST_DIR}/metrics.cc)
target_link_libraries(rueda_squad
  PUBLIC rueda_examples_common
  PRIVATE rueda_options fmt::fmt ICU::uc)

add_executable(bert_tokenize ${CMAKE_CURRENT_LIST_DIR}/tokenize_main.cc)
target_link_libraries(bert_tokenize PRIVATE rueda_options rueda_examples_common fmt::fmt)
