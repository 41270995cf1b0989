// SPDX-License-Identifier: Apache-2.0
// Values as files of a folder that all hosts share.
#pragma once

#include <string>

#include "ops/bootstrap/address/key_value_store.h"

namespace rueda {

// Purpose: one file a key, written whole and readable by its owner only. Files of another user are refused,
// and so are folders in which others may write: nobody else reads the secret of a job, or leads ranks astray.
class FileStore final : public KeyValueStore {
 public:
  // Makes the folder if it is not there. Throws BackendError.
  explicit FileStore(std::string folder);

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  void remove(const std::string& key) override;
  std::string in_words() const override { return "the folder " + folder_; }

 private:
  std::string path_of(const std::string& key) const;

  std::string folder_;
};

}  // namespace rueda
