// SPDX-License-Identifier: Apache-2.0
// One type for all objects that an elastic::State keeps.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/serialize/archive.h>

#include <concepts>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "rueda/torch/elastic/part.h"
#include "rueda/torch/elastic/sampler.h"
#include "rueda/torch/state/archive.h"

namespace rueda::elastic {

// A number, an enumerator, or a structure of such values without pointers to other memory.
template <class T>
concept PlainValue = !std::is_const_v<T> && !std::is_pointer_v<T> && std::is_trivially_copyable_v<T>;

// An object with the functions save() and load() of LibTorch's archives, and not of a kind of LibTorch.
template <class T>
concept Archived = !PlainValue<T> && !std::derived_from<T, torch::nn::Module> &&
                   !std::derived_from<T, torch::optim::Optimizer> &&
                   requires(const T& saved, T& loaded, torch::serialize::OutputArchive& out,
                            torch::serialize::InputArchive& in) {
  saved.save(out);
  loaded.load(in);
};

// Returns a Part that keeps an object as bytes. `read` returns the bytes, and `write` gives them back.
std::shared_ptr<Part> bytes_part(std::string kind, std::function<std::string()> read,
                                 std::function<void(const std::string&)> write);

// Purpose: refers to an object of the program that a State keeps. The object lives as long as the State.
class Kept {
 public:
  // Keeps parameters and buffers. The module gets no others later.
  Kept(torch::nn::Module& module);
  // Keeps the module that `module` holds.
  template <class M>
  Kept(const std::shared_ptr<M>& module) requires std::derived_from<M, torch::nn::Module>
      : Kept(static_cast<torch::nn::Module&>(*module)) {}
  // Keeps the module that `module` holds.
  template <class M>
  Kept(const torch::nn::ModuleHolder<M>& module) : Kept(module.ptr()) {}
  // Keeps state and options. Steps of a DistributedOptimizer, a ShardedOptimizer or a ShardedModel make light
  // commits possible. A ShardedOptimizer and a ShardedModel also keep their parameters, so modules leave
  // these out.
  Kept(torch::optim::Optimizer& optimizer);
  // Keeps the number of steps. The optimizer, with its learning rate, is a part of the same State.
  Kept(torch::optim::LRScheduler& scheduler);
  // Keeps the epoch, and how many samples of it have been read.
  Kept(Sampler& sampler);
  // Keeps the tensor. restore() and sync() replace it.
  Kept(at::Tensor& tensor);
  // Keeps the text.
  Kept(std::string& text);
  // Keeps a copy of the value.
  template <PlainValue T>
  Kept(T& value)
      : Kept(bytes_part(
            "a value of " + std::to_string(sizeof(T)) + " bytes",
            [&value] { return std::string(reinterpret_cast<const char*>(&value), sizeof(T)); },
            [&value](const std::string& bytes) { std::memcpy(&value, bytes.data(), sizeof(T)); })) {}
  // Keeps the archive that the object saves.
  template <Archived T>
  Kept(T& object)
      : Kept(bytes_part(
            "an object",
            [&object] {
              torch::serialize::OutputArchive archive;
              object.save(archive);
              return to_bytes(archive);
            },
            [&object](const std::string& bytes) {
              torch::serialize::InputArchive archive = read_archive(bytes, at::kCPU);
              object.load(archive);
            })) {}
  // Keeps an object by a Part of your own.
  template <std::derived_from<Part> P>
  Kept(std::shared_ptr<P> part) : part_(std::move(part)) {}

  // Returns the Part of the object.
  const std::shared_ptr<Part>& part() const { return part_; }

 private:
  std::shared_ptr<Part> part_;
};

}  // namespace rueda::elastic
