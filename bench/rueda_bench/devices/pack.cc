// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/devices/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/base/host_buffer.h"

namespace rueda::bench {
namespace {

// Small whole numbers, which bfloat16 can say.
float value(std::int64_t element) { return static_cast<float>(element % 127); }

// Purpose: the tensors of a workload, the buffer into which they are packed, and memory for the copies
// beside.
class Packed {
 public:
  Packed(BenchDevice& device, const Workload& workload, DataType travels_as)
      : device_(device), travels_as_(travels_as) {
    for (const NamedTensor& each : workload.tensors) {
      const auto bytes = static_cast<std::size_t>(each.elements) * sizeof(float);
      tensors_.push_back(device_.pinned(bytes));
      elements_.push_back(each.elements);
      offsets_.push_back(buffer_bytes_);
      buffer_bytes_ += HostBuffer::whole_lines(static_cast<std::size_t>(each.elements) * size_of(travels_as));
      moved_ += each.elements * static_cast<std::int64_t>(sizeof(float) + size_of(travels_as));
    }
    buffer_ = device_.device().memory(buffer_bytes_);
    copy_from_ = device_.device().memory(static_cast<std::size_t>(moved_ / 2));
    copy_to_ = device_.device().memory(static_cast<std::size_t>(moved_ / 2));
  }

  std::int64_t moved() const { return moved_; }

  double pack() {
    return timed([&] { device_.queue().copy(pieces(true)); });
  }
  double unpack() {
    return timed([&] { device_.queue().copy(pieces(false)); });
  }
  double copy() {
    return timed([&] {
      device_.queue().copy(copy_to_.get(), copy_from_.get(), static_cast<std::size_t>(moved_ / 2));
    });
  }

  void fill() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      auto* values = reinterpret_cast<float*>(tensors_[i].get());
      for (std::int64_t k = 0; k < elements_[i]; ++k) values[k] = value(k);
      device_.to_device(values, bytes(i));
    }
    device_.finish();
  }
  // From one to the other: what comes out of the buffer is what went in.
  void wipe() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      std::memset(tensors_[i].get(), 0, bytes(i));
      device_.to_device(tensors_[i].get(), bytes(i));
    }
    device_.finish();
  }
  void check() {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      device_.to_host(tensors_[i].get(), bytes(i));
      device_.finish();
      const auto* values = reinterpret_cast<const float*>(tensors_[i].get());
      for (std::int64_t k = 0; k < elements_[i]; ++k) wrong += values[k] != value(k);
    }
    if (wrong > 0) throw std::runtime_error(fmt::format("pack: {} elements came out wrong", wrong));
  }

 private:
  std::size_t bytes(std::size_t i) const { return static_cast<std::size_t>(elements_[i]) * sizeof(float); }

  BatchCopy pieces(bool packs) const {
    BatchCopy copy;
    copy.from_type = packs ? DataType::float32 : travels_as_;
    copy.to_type = packs ? travels_as_ : DataType::float32;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      std::byte* const tensor = device_.twin(tensors_[i].get());
      std::byte* const slot = buffer_.get() + offsets_[i];
      copy.pieces.push_back(packs ? CopyPiece{tensor, slot, elements_[i]}
                                  : CopyPiece{slot, tensor, elements_[i]});
    }
    return copy;
  }

  template <class Give>
  double timed(Give give) {
    device_.clock().start(device_.stream());
    give();
    return device_.clock().stop(device_.stream());
  }

  BenchDevice& device_;
  DataType travels_as_;
  std::vector<std::shared_ptr<std::byte>> tensors_;
  std::vector<std::int64_t> elements_;
  std::vector<std::size_t> offsets_;
  std::size_t buffer_bytes_ = 0;
  std::int64_t moved_ = 0;
  std::shared_ptr<std::byte> buffer_;
  std::shared_ptr<std::byte> copy_from_;
  std::shared_ptr<std::byte> copy_to_;
};

}  // namespace

std::vector<PackRow> measure_pack(BenchDevice& device, const Workload& workload, int steps, int warmup) {
  std::vector<PackRow> rows;
  for (const DataType travels_as : {DataType::float32, DataType::bfloat16}) {
    Packed packed(device, workload, travels_as);
    packed.fill();
    packed.pack();
    packed.wipe();
    packed.unpack();
    packed.check();
    const std::string as =
        travels_as == DataType::float32 ? "" : fmt::format(" as {}", to_string(travels_as));
    PackRow pack{"pack float32" + as, packed.moved(), {}, {}},
        unpack{"unpack float32" + as, packed.moved(), {}, {}};
    for (int step = -warmup; step < steps; ++step) {
      const double copied = packed.copy(), into = packed.pack(), copied_again = packed.copy(),
                   out = packed.unpack();
      if (step < 0) continue;
      pack.copied.push_back(copied);
      pack.seconds.push_back(into);
      unpack.copied.push_back(copied_again);
      unpack.seconds.push_back(out);
    }
    rows.push_back(std::move(pack));
    rows.push_back(std::move(unpack));
  }
  return rows;
}

}  // namespace rueda::bench
