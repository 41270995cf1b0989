// SPDX-License-Identifier: Apache-2.0
#include "core/control/scheduling/cache_policy.h"

#include "core/base/operation_traits.h"

namespace rueda {

void CachePolicy::give_ids(Plan& plan) {
  if (least_ == 0 || !plan.status.ok() || !traits(plan.operation).moves_data) return;
  if (plan.operation == Operation::barrier) return;  // each has a name of its own
  const std::uint64_t before = calls_;
  for (PlanTensor& tensor : plan.tensors) give_id(tensor, plan);
  // Not those of this Plan: an id cannot end in the Plan that gives it.
  while (!kept_.empty() && kept_.back().called <= before &&
         calls_ - kept_.back().called >
             static_cast<std::uint64_t>(least_) + 4 * static_cast<std::uint64_t>(again_)) {
    end(std::prev(kept_.end()), plan);
  }
}

void CachePolicy::give_id(PlanTensor& tensor, Plan& plan) {
  if (tensor.request->operation == Operation::message) return;  // most have names of their own
  if (tensor.request->elsewhere) return;                        // which is not what comes again
  ++calls_;
  if (auto same = same_.find(tensor.request.get()); same != same_.end())
    return call_again(same->second, tensor);
  if (auto found = by_key_.find(key_view_of(*tensor.request)); found != by_key_.end()) {
    if (compatible(*found->second->request, *tensor.request)) return call_again(found->second, tensor);
    end(found->second, plan);
  }
  // A copy: the request may be part of an operation, which ends.
  tensor.request = std::make_shared<const Request>(*tensor.request);
  kept_.push_front({next_++, tensor.request, calls_, false});
  by_key_.emplace(key_of(*tensor.request), kept_.begin());
  same_.emplace(tensor.request.get(), kept_.begin());
  tensor.id = kept_.front().id;
}

void CachePolicy::call_again(List::iterator kept, PlanTensor& tensor) {
  again_ += kept->again ? 0 : 1;
  kept->again = true;
  kept->called = calls_;
  kept_.splice(kept_.begin(), kept_, kept);
  tensor.id = kept->id;
  tensor.in_full = false;
  if (tensor.request != kept->request) tensor.request = kept->request;
}

void CachePolicy::end_set(ProcessSetId set, Plan& plan) {
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const auto next = std::next(kept);
    if (kept->request->process_set == set) end(kept, plan);
    kept = next;
  }
}

void CachePolicy::end(List::iterator kept, Plan& plan) {
  plan.evicted.push_back(kept->id);
  again_ -= kept->again ? 1 : 0;
  by_key_.erase(key_of(*kept->request));
  same_.erase(kept->request.get());
  kept_.erase(kept);
}

}  // namespace rueda
