// SPDX-License-Identifier: Apache-2.0
// A place where ranks leave values for one another before they are connected.
#pragma once

#include <optional>
#include <string>

namespace rueda {

// Purpose: a few short values, each under a key of letters, digits, '-', '_', '.' and '/'. Values are
// printable text without spaces. Used by one thread at a time.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // Replaces an older value. Throws BackendError.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Nothing as long as the key has no value; does not wait for it. Throws BackendError.
  virtual std::optional<std::string> get(const std::string& key) = 0;
  // The key is needed no more.
  virtual void remove(const std::string& key) { static_cast<void>(key); }
  // The value is needed no more. The next job may have set its own already, which stays.
  virtual void retire(const std::string& key, const std::string& value) {
    if (get(key) == value) remove(key);
  }
  // True if get() may take longer than some milliseconds.
  virtual bool may_block() const { return true; }
  virtual std::string in_words() const = 0;
};

}  // namespace rueda
