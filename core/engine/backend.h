// SPDX-License-Identifier: Apache-2.0
// A way to carry out Plans.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/control/messages/plan.h"
#include "core/engine/submissions/entry.h"
#include "core/engine/work.h"

namespace rueda {

// Purpose: starts Works for Plans. Owned by the background thread, which alone calls it; lives as long as
// its Runtime.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // Returns the kind of device that holds the tensors of this backend's Plans.
  virtual DeviceKind device() const { return DeviceKind::host; }
  // Called on each rank when all ranks are known, backend by backend. The first that returns true carries
  // data between hosts, and ends the calls. `hosts`: by rank. Calls `alive` now and then; takes few seconds.
  virtual bool on_peers_known(const std::vector<std::string>& hosts, const std::function<void()>& alive);
  // Asked on rank 0 only, of Plans on that device; the first backend of RuntimeComponents that says yes is
  // taken, on every rank.
  virtual bool can_run(const Plan& plan) const = 0;
  // On rank 0 only, of a Plan that this one runs, with its members: what all ranks must do alike.
  virtual void decide(Plan&) const {}
  // `entries` belong to plan.tensors one by one, and both outlive the Work. Called in Plan order on every
  // rank, also by backends that use this one: what Works share goes from one to the next in that order.
  virtual std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries) = 0;
  // Whether the Work of such a Plan heeds the `flow` of its first entry.
  virtual bool flows(const Plan&) const { return false; }
  // The seconds that the Work of such a Plan takes by this backend's cost model. 0: it has none, or none on
  // this rank.
  virtual double predicted_seconds(const Plan&) const { return 0; }
  // Runs in every turn, for example to check for device errors after Works are over. Throws an error that
  // ends the job. After the job has failed it runs with `failed`, and does not throw.
  virtual void tend(bool failed) { static_cast<void>(failed); }
  // Whether a peer's move rings the Runtime's doorbell; if not, the background thread has to look.
  virtual bool rings_doorbell() const = 0;
};

// Which of them runs `plan`: the first that can (preference 0), the second (1), the last one if there are
// fewer. That one decides. A Plan on a device for which rank 0 has none gets a Status that says so.
std::uint8_t able_backend(const std::vector<std::unique_ptr<Backend>>& backends, Plan& plan, int preference);

}  // namespace rueda
