# SPDX-License-Identifier: Apache-2.0
# bert_data_check: SQuAD features, metric and safetensors as a program, for tests/python/test_bert_data.py.
add_executable(bert_data_check ${CMAKE_CURRENT_LIST_DIR}/bert_data_check.cc)
target_link_libraries(bert_data_check PRIVATE rueda_options rueda_squad fmt::fmt)
