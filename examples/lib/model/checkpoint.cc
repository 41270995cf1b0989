// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/model/checkpoint.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>

#include "examples/lib/data/tokenizer/tokenizer_files.h"
#include "examples/lib/model/bert_model.h"

namespace rueda::examples {
namespace {

struct DtypeName {
  std::string_view safetensors;
  std::string_view torch;
  at::ScalarType type;
};

constexpr std::array<DtypeName, 4> kDtypes = {{{"F32", "float32", at::kFloat},
                                               {"F64", "float64", at::kDouble},
                                               {"BF16", "bfloat16", at::kBFloat16},
                                               {"F16", "float16", at::kHalf}}};

const DtypeName& name_of(at::ScalarType type) {
  for (const DtypeName& name : kDtypes) {
    if (name.type == type) return name;
  }
  throw std::runtime_error(fmt::format("parameters of type {} cannot be saved", c10::toString(type)));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  if (const auto found = text.find(from); found != std::string::npos) text.replace(found, from.size(), to);
  return text;
}

// The bias of the masked-LM decoder goes by two names, of which a file may have either.
constexpr const char* kLmBias = "cls.predictions.bias";
constexpr const char* kLmDecoderBias = "cls.predictions.decoder.bias";
constexpr const char* kLmDecoder = "cls.predictions.decoder.weight";
constexpr const char* kWordEmbeddings = "bert.embeddings.word_embeddings.weight";

// Whether a checkpoint of an encoder may be without it. The pooler serves one head only.
bool is_of_head(const std::string& name) {
  return !name.starts_with("bert.") || name.starts_with("bert.pooler.");
}

// Checkpoints converted from TensorFlow call the weight and bias of a layer norm gamma and beta.
const SafetensorEntry* find_entry(const ModelTensors& tensors, const std::string& name) {
  const std::string bare = name.starts_with("bert.") ? name.substr(5) : name;
  for (const std::string& candidate : {name, bare, name == kLmBias ? kLmDecoderBias : name}) {
    const std::string old_name = replaced(replaced(candidate, "LayerNorm.weight", "LayerNorm.gamma"),
                                          "LayerNorm.bias", "LayerNorm.beta");
    if (const SafetensorEntry* entry = tensors.find(candidate)) return entry;
    if (const SafetensorEntry* entry = tensors.find(old_name)) return entry;
  }
  return nullptr;
}

// By its extremes, which NaN spreads to: one look at each value, and no memory.
bool is_finite(const at::Tensor& tensor) {
  const auto [least, most] = at::aminmax(tensor);
  return std::isfinite(least.item<double>()) && std::isfinite(most.item<double>());
}

void copy_entry(const SafetensorEntry& entry, at::Tensor parameter, const std::string& origin) {
  if (parameter.sizes() != at::IntArrayRef(entry.shape)) {
    throw std::runtime_error(fmt::format("{}: the tensor {} has shape [{}], but config.json asks for [{}]",
                                         origin, entry.name, fmt::join(entry.shape, ", "),
                                         fmt::join(parameter.sizes(), ", ")));
  }
  for (const DtypeName& name : kDtypes) {
    if (name.safetensors != entry.dtype) continue;
    // from_blob wants a pointer to mutable memory; the tensor is only read.
    void* data = const_cast<std::byte*>(entry.data.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    parameter.copy_(at::from_blob(data, entry.shape, at::TensorOptions().dtype(name.type)));
    if (is_finite(parameter)) return;
    throw std::runtime_error(fmt::format(
        "{}: the tensor {} has values that are not finite (NaN or infinity); fetch the file anew, or "
        "take a checkpoint from before its training diverged",
        origin, entry.name));
  }
  throw std::runtime_error(fmt::format("{}: the tensor {} has type {}; F32, F64, BF16 and F16 can be read",
                                       origin, entry.name, entry.dtype));
}

// A copy must equal its parameter, because only the parameter is loaded. `why` ends the text of the error.
void check_copy(const ModelTensors& tensors, const char* name, const SafetensorEntry* parameter,
                const char* why, std::set<std::string_view>& used) {
  const SafetensorEntry* copy = tensors.find(name);
  if (copy == nullptr || parameter == nullptr) return;
  if (copy->dtype != parameter->dtype || !std::ranges::equal(copy->data, parameter->data)) {
    throw std::runtime_error(
        fmt::format("{}: {} differs from {}; {}", tensors.origin(), name, parameter->name, why));
  }
  used.insert(name);
}

// The decoder of a masked-LM head may be there beside the word embeddings, and its bias by both names.
void check_decoder(const ModelTensors& tensors, std::set<std::string_view>& used) {
  check_copy(tensors, kLmDecoder, find_entry(tensors, kWordEmbeddings),
             "only a masked-LM head that is tied to the word embeddings can be read", used);
  check_copy(tensors, kLmDecoderBias, tensors.find(kLmBias),
             "a masked-LM head has one bias: take out the name that does not count", used);
}

void write_json(const std::filesystem::path& path, const nlohmann::json& json) {
  std::ofstream stream(path);
  stream << json.dump(2) << '\n' << std::flush;
  if (!stream) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

LoadReport load_parameters(BertWithHead& model, const ModelTensors& tensors) {
  const at::NoGradGuard no_grad;
  LoadReport report;
  std::set<std::string_view> used;
  for (const auto& item : model.named_parameters()) {
    const SafetensorEntry* entry = find_entry(tensors, item.key());
    if (entry != nullptr) {
      copy_entry(*entry, item.value(), tensors.origin());
      used.insert(entry->name);
    } else if (is_of_head(item.key())) {
      report.fresh.push_back(item.key());
    } else {
      throw std::runtime_error(fmt::format("{}: the tensor {} is missing; is this a BERT of {} layers?",
                                           tensors.origin(), item.key(), model.config().num_hidden_layers));
    }
  }
  if (model.architecture() == "BertForMaskedLM") check_decoder(tensors, used);
  for (const SafetensorEntry& entry : tensors.entries()) {
    if (!used.contains(entry.name)) report.unused.push_back(entry.name);
  }
  return report;
}

LoadReport load_parameters(BertWithHead& model, const std::filesystem::path& folder) {
  return load_parameters(model, ModelTensors::open(folder));
}

void save_checkpoint(const std::filesystem::path& folder, const BertWithHead& model,
                     const WordPieceTokenizer& tokenizer) {
  std::filesystem::create_directories(folder);
  std::vector<at::Tensor> kept;
  std::vector<SafetensorEntry> entries;
  for (const auto& item : model.named_parameters()) {
    kept.push_back(item.value().detach().cpu().contiguous());
    const at::Tensor& tensor = kept.back();
    entries.push_back({.name = item.key(),
                       .dtype = std::string(name_of(tensor.scalar_type()).safetensors),
                       .shape = tensor.sizes().vec(),
                       .data = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  write_json(folder / "config.json", to_json(model.config(), model.architecture(),
                                             std::string(name_of(kept.at(0).scalar_type()).torch)));
  write_tokenizer(folder, tokenizer, model.config().max_position_embeddings);
  // The last file: if it is there, all files are.
  write_safetensors(folder / "model.safetensors", entries, {{"format", "pt"}});
}

std::uint64_t parameters_hash(const torch::nn::Module& module) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const at::Tensor& parameter : module.parameters()) {
    const at::Tensor tensor = parameter.detach().cpu().contiguous();
    const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
    for (std::size_t i = 0; i < tensor.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace rueda::examples
