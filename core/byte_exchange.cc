// SPDX-License-Identifier: Apache-2.0
#include "core/byte_exchange.h"

#include <memory>
#include <span>
#include <utility>

#include "core/engine/runtime.h"
#include "core/observe/training/training_wait.h"
#include "core/submission_arguments.h"
#include "rueda/rueda.h"

namespace rueda {
namespace {

// `values` live until it is complete: the wait for another operation may end by an exception before.
template <class Values>
Handle gather(std::string name, DataType dtype, const std::shared_ptr<const Values>& values,
              const Scope& scope) {
  Submission submission;
  submission.request.name = std::move(name);
  submission.request.operation = Operation::allgather;
  submission.request.dtype = dtype;
  submission.request.shape = {static_cast<std::int64_t>(values->size())};
  submission.input = ConstTensorView(values->data(), dtype, submission.request.shape);
  submission.owner = std::const_pointer_cast<Values>(values);
  set_scope(submission, scope);
  return scope.runtime().submit(std::move(submission));
}

}  // namespace

void broadcast_bytes(std::string& bytes, Rank root, const std::string& name, const Scope& scope) {
  std::vector<std::int64_t> size{static_cast<std::int64_t>(bytes.size())};
  const TensorView sizes = view(size);
  const TrainingWait waiting;
  broadcast_async(name + ".size", sizes, sizes, root, scope).wait();
  bytes.resize(static_cast<std::size_t>(size.front()));
  const TensorView both{bytes.data(), DataType::uint8, {size.front()}, {}};
  broadcast_async(name + ".bytes", both, both, root, scope).wait();
}

std::vector<std::string> allgather_bytes(const std::string& bytes, const std::string& name,
                                         const Scope& scope) {
  using Sizes = std::vector<std::int64_t>;
  const auto size = std::make_shared<const Sizes>(1, static_cast<std::int64_t>(bytes.size()));
  const TrainingWait waiting;
  const Handle sizes = gather(name + ".size", DataType::int64, size, scope);
  const auto mine = std::make_shared<const std::string>(bytes);
  const Handle contents = gather(name + ".bytes", DataType::uint8, mine, scope);
  sizes.wait();
  contents.wait();
  const std::span all_sizes(static_cast<const std::int64_t*>(sizes.output().data),
                            static_cast<std::size_t>(sizes.output().elements()));
  const char* next = static_cast<const char*>(contents.output().data);
  std::vector<std::string> ranks;
  for (std::int64_t each : all_sizes) {
    ranks.emplace_back(next, static_cast<std::size_t>(each));
    next += each;
  }
  return ranks;
}

}  // namespace rueda
