// SPDX-License-Identifier: Apache-2.0
// The start of a Runtime beside the default one: for groups of ranks that a framework makes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/engine/runtime.h"
#include "rueda/store.h"

namespace rueda::ops {

// Purpose: one rank of a group, as the framework describes it. A plain value.
struct GroupStart {
  std::shared_ptr<Store> store;  // of this group alone: other groups have other keys
  Rank rank = 0;
  Rank size = 1;
  Duration start_timeout{};  // for the other ranks to come
  // Whether nobody waits for this start any more; it ends with an error then. No function: somebody does.
  std::function<bool()> unwanted;
  std::string name{};         // for people
  std::vector<Rank> ranks{};  // its ranks among those of the job; empty: they are not known
};

// Waits until all ranks of the group are there. Settings are those of the environment. Files that they name,
// such as a timeline, are written for the first Runtime of the process only. Throws the errors of init() of
// rueda/store.h. Any thread may call it, several at a time.
std::unique_ptr<Runtime> start_group(const GroupStart& start);

}  // namespace rueda::ops
