// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/model/distillation.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rueda::examples {
namespace {

constexpr std::string_view kLayers = "bert.encoder.layer.";

void check_same(const char* what, std::int64_t teacher, std::int64_t student) {
  if (teacher == student) return;
  throw std::invalid_argument(
      fmt::format("the teacher's {} is {}, the student's {}; they must be equal", what, teacher, student));
}

// "bert.encoder.layer.1.output.dense.bias" of the student is "bert.encoder.layer.2.output.dense.bias" of the
// teacher; all else goes by the same name.
std::string name_in_teacher(const std::string& name) {
  if (!name.starts_with(kLayers)) return name;
  int layer = 0;
  const char* end = std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer).ptr;
  return fmt::format("{}{}{}", kLayers, 2 * layer, std::string_view(end, name.data() + name.size()));
}

// The mean over the rows, [n, vocab_size]; 0 without any.
at::Tensor divergence(const at::Tensor& student, const at::Tensor& teacher, double temperature) {
  if (student.size(0) == 0) return student.sum();
  const at::Tensor from = at::log_softmax(student / temperature, 1);
  const at::Tensor to = at::softmax(teacher / temperature, 1);
  return at::kl_div(from, to, at::Reduction::Sum) *
         (temperature * temperature / static_cast<double>(student.size(0)));
}

// The how-manieth of the tokens each of these indices is.
at::Tensor indices_among(const at::Tensor& indices, const at::Tensor& valid) {
  return (valid.flatten().cumsum(0) - 1).index_select(0, indices);
}

at::Tensor mean_cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return logits.size(0) == 0 ? logits.sum() : at::cross_entropy_loss(logits, labels);
}

}  // namespace

void check_comparable(const BertForMaskedLM& teacher, const BertForMaskedLM& student) {
  check_same("vocab_size", teacher.config().vocab_size, student.config().vocab_size);
  check_same("hidden_size", teacher.config().hidden_size, student.config().hidden_size);
}

DistillationLosses distillation_losses(BertForMaskedLM& student, BertForMaskedLM& teacher,
                                       const BertInput& input, const DistillationTargets& targets,
                                       const DistillationOptions& options) {
  check_comparable(teacher, student);
  const bool all = options.compared == ComparedTokens::all;
  const at::Tensor& compared = all ? targets.tokens : targets.masked;
  at::Tensor teacher_hidden;
  at::Tensor teacher_logits;
  {
    const at::NoGradGuard no_grad;
    teacher_hidden = teacher.encode(input);
    teacher_logits = teacher.predict(rows_at(teacher_hidden, compared));
  }
  const at::Tensor hidden = student.encode(input);
  const at::Tensor logits = student.predict(rows_at(hidden, compared));
  DistillationLosses losses;
  losses.mlm =
      mean_cross_entropy(all ? logits.index_select(0, indices_among(targets.masked, input.valid)) : logits,
                         targets.labels.flatten().index_select(0, targets.masked));
  losses.ce = divergence(logits, teacher_logits, options.temperature);
  const at::Tensor left = rows_at(hidden, targets.tokens).to(losses.ce.scalar_type());
  const at::Tensor right = rows_at(teacher_hidden, targets.tokens).to(losses.ce.scalar_type());
  losses.cosine = at::cosine_embedding_loss(left, right, at::ones({left.size(0)}, left.options()));
  losses.total =
      options.alpha_mlm * losses.mlm + options.alpha_ce * losses.ce + options.alpha_cos * losses.cosine;
  return losses;
}

BertConfig student_config(const BertConfig& teacher) {
  BertConfig config = teacher;
  config.num_hidden_layers = (teacher.num_hidden_layers + 1) / 2;
  return config;
}

void copy_every_second_layer(const BertForMaskedLM& teacher, BertForMaskedLM& student) {
  const BertConfig& from = teacher.config();
  const BertConfig& to = student.config();
  check_same("vocab_size", from.vocab_size, to.vocab_size);
  check_same("hidden_size", from.hidden_size, to.hidden_size);
  check_same("intermediate_size", from.intermediate_size, to.intermediate_size);
  check_same("num_attention_heads", from.num_attention_heads, to.num_attention_heads);
  check_same("max_position_embeddings", from.max_position_embeddings, to.max_position_embeddings);
  check_same("type_vocab_size", from.type_vocab_size, to.type_vocab_size);
  if (from.num_hidden_layers < 2 * to.num_hidden_layers - 1) {
    throw std::invalid_argument(
        fmt::format("a student of {} layers takes every second of {} and more; the teacher has {}",
                    to.num_hidden_layers, 2 * to.num_hidden_layers - 1, from.num_hidden_layers));
  }
  const at::NoGradGuard no_grad;
  const auto given = teacher.named_parameters();
  for (const auto& item : student.named_parameters()) item.value().copy_(given[name_in_teacher(item.key())]);
}

}  // namespace rueda::examples
