// SPDX-License-Identifier: Apache-2.0
// A job whose ranks the program numbers itself, and which find one another in a store of the program's.
//
//   class EtcdStore : public rueda::Store { ... };
//   rueda::init(std::make_shared<EtcdStore>("node7:2379", "job-17"), rank, size);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rueda/types.h"

namespace rueda {

// Purpose: a place where ranks leave values for one another; derive from it for etcd, Redis, a database. Rank
// 0 leaves its address and the secret of the job there, so whoever reads the store may join. During init()
// one thread at a time calls it, perhaps not the one that has called init(). A function that fails throws a
// std::exception.
class Store {
 public:
  virtual ~Store() = default;
  // Replaces an older value. Values are printable text without spaces, of some hundred bytes.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Nothing as long as the key has no value. It is asked again soon, so it waits for one for a short time
  // only.
  virtual std::optional<std::string> get(const std::string& key) = 0;
  // For messages: "the etcd at node7:2379".
  virtual std::string in_words() const = 0;
};

// As init() of rueda.h, but as rank `rank` of `size`, and the ranks find one another by `store`. Variables of
// launchers and RUEDA_BOOTSTRAP count for nothing. Jobs may follow one another over one store; jobs at the
// same time need stores that keep their keys apart. The store is not used after this function has returned.
//
// Errors: those of init(). InvalidArgument where `store` is null, or `rank` is not one of `size`.
// BackendError names the rank, the store and its words where the store throws.
void init(std::shared_ptr<Store> store, Rank rank, Rank size,
          const std::vector<std::vector<Rank>>& process_sets = {});

}  // namespace rueda
