// SPDX-License-Identifier: Apache-2.0
// Distillation as DistilBERT does it (Sanh et al., 2019): a student with fewer layers learns from a teacher.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "examples/lib/model/masked_lm.h"

namespace rueda::examples {

// The tokens at which the distributions over the vocabulary are compared. The cosine loss is over all tokens
// in either case.
enum class ComparedTokens : std::uint8_t { all, masked };

// The defaults are DistilBERT's.
struct DistillationOptions {
  double alpha_mlm = 2;
  double alpha_ce = 5;
  double alpha_cos = 1;
  double temperature = 2;
  ComparedTokens compared = ComparedTokens::all;
};

// Scalars, each the mean over this batch.
struct DistillationLosses {
  at::Tensor total;  // alpha_mlm * mlm + alpha_ce * ce + alpha_cos * cosine
  // The cross entropy of the student at the masked tokens.
  at::Tensor mlm;
  // T² times the divergence (Kullback-Leibler) of softmax(student / T) from softmax(teacher / T). It is the
  // cross entropy of the two less the teacher's entropy, which no student changes: the same gradients, but 0
  // for a student that agrees. T² keeps the gradients' size when T grows.
  at::Tensor ce;
  // 1 - the cosine of the last hidden states of student and teacher.
  at::Tensor cosine;
};

// Throws std::invalid_argument naming both values when vocabulary or hidden size differ.
void check_comparable(const BertForMaskedLM& teacher, const BertForMaskedLM& student);

// The tokens that the student is to guess, int64 [rows, columns], and their indices (masked_lm.h).
struct DistillationTargets {
  at::Tensor labels;
  at::Tensor masked;  // of the tokens with a label
  at::Tensor tokens;  // of all, padding aside
};
// Gradients go to the student only; `teacher` should be in eval mode. Padding counts nowhere. Throws the
// errors of check_comparable().
DistillationLosses distillation_losses(BertForMaskedLM& student, BertForMaskedLM& teacher,
                                       const BertInput& input, const DistillationTargets& targets,
                                       const DistillationOptions& options);

// The student of a teacher: every second layer, rounded up.
BertConfig student_config(const BertConfig& teacher);

// Copies embeddings, head, and to layer i of the student the teacher's layer 2i. Throws std::invalid_argument
// naming the values when a size differs or the teacher has too few layers.
void copy_every_second_layer(const BertForMaskedLM& teacher, BertForMaskedLM& student);

}  // namespace rueda::examples
