// SPDX-License-Identifier: Apache-2.0
// The exchange between the members of a process set before devices may begin.
#pragma once

#include <memory>
#include <vector>

#include "core/base/bytes.h"
#include "ops/algorithms/link_backend.h"

namespace rueda {

// Purpose: every member of a Plan's process set gives some bytes, and gets those of all: an allgather of the
// host's memory over a link, under the Plan's own tag. Several of one Plan follow one another, the same on
// all its ranks. Part of a Work.
class MemberExchange {
 public:
  MemberExchange(LinkBackend& link, const Plan& plan, const Bytes& own);
  MemberExchange(const MemberExchange&) = delete;
  MemberExchange& operator=(const MemberExchange&) = delete;
  ~MemberExchange() { work_.reset(); }  // before what it works on

  // As a Work's; given_up where some member has abandoned it.
  Work::Step step() { return work_->step(); }
  void abandon() { work_->abandon(); }
  // The bytes of all members, one after another in their order, once the exchange is done.
  Reader received() const;

 private:
  Bytes own_;
  Plan plan_;
  std::vector<Entry> entries_;
  std::unique_ptr<Work> work_;
};

}  // namespace rueda
