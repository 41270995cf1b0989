// SPDX-License-Identifier: Apache-2.0
// A small object in the state of an elastic training.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "rueda/torch/elastic/part.h"
#include "rueda/torch/state/objects.h"

namespace rueda::elastic {

// Purpose: keeps an object as bytes, which one function reads and another gives back.
class BytesPart final : public Part {
 public:
  using Read = std::function<std::string()>;
  using Write = std::function<void(const std::string&)>;

  // ranks_changed() calls `adapt`.
  BytesPart(std::string kind, Read read, Write write, std::function<void()> adapt = {})
      : kind_(std::move(kind)),
        read_(std::move(read)),
        write_(std::move(write)),
        adapt_(std::move(adapt)),
        kept_(read_()) {}

  std::string describe() const override { return kind_; }
  void save() override { kept_ = read_(); }
  void restore() override { write_(kept_); }
  void sync(Rank root, const Scope& scope) override {
    std::string bytes = read_();
    broadcast_object(bytes, root, scope);
    write_(bytes);
  }
  void ranks_changed() override {
    if (adapt_) adapt_();
  }

 private:
  const std::string kind_;
  const Read read_;
  const Write write_;
  const std::function<void()> adapt_;
  std::string kept_;
};

}  // namespace rueda::elastic
