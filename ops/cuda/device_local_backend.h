// SPDX-License-Identifier: Apache-2.0
// Operations on devices among one rank: copies there, scaled where asked for.
#pragma once

#include <memory>

#include "core/engine/backend.h"
#include "ops/cuda/device_sides.h"

namespace rueda {

// Purpose: the backend of device Plans of one rank, but for those that kernels here cannot compute. Owned by
// the background thread.
class DeviceLocalBackend final : public Backend {
 public:
  explicit DeviceLocalBackend(std::shared_ptr<DeviceSides> sides) : sides_(std::move(sides)) {}

  std::string_view name() const override { return "cuda-alone"; }
  DeviceKind device() const override { return DeviceKind::cuda; }
  bool can_run(const Plan& plan) const override;
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) override;
  bool rings_doorbell() const override { return true; }  // its Works wait for nobody

 private:
  std::shared_ptr<DeviceSides> sides_;
};

}  // namespace rueda
