// SPDX-License-Identifier: Apache-2.0
// A model's parameters in Hugging Face's folder format, and their fingerprint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/lib/data/tokenizer/word_piece.h"
#include "examples/lib/model/model_tensors.h"

namespace torch::nn {
class Module;
}

namespace rueda::examples {

class BertWithHead;

// The report of loading, beyond parameters filled by name.
struct LoadReport {
  std::vector<std::string> fresh;   // parameters of the head that the file has not: left as they were drawn
  std::vector<std::string> unused;  // tensors of the file that the model has not
};

// Copies the tensors into the parameters of the same name, converting their type; the prefix "bert." may be
// absent in the files. Throws std::runtime_error naming the file and the tensor: missing in the encoder, of
// another shape, with values that are not finite, a masked-LM decoder that is not tied to the word
// embeddings, or one with two different biases.
LoadReport load_parameters(BertWithHead& model, const ModelTensors& tensors);
// The same from the folder of a checkpoint.
LoadReport load_parameters(BertWithHead& model, const std::filesystem::path& folder);

// Writes model.safetensors, config.json and the tokenizer's files (write_tokenizer()), creating `folder`.
// Throws std::runtime_error naming the file that cannot be written.
void save_checkpoint(const std::filesystem::path& folder, const BertWithHead& model,
                     const WordPieceTokenizer& tokenizer);

// FNV-1a over the bytes of all parameters in order.
std::uint64_t parameters_hash(const torch::nn::Module& module);

}  // namespace rueda::examples
