// SPDX-License-Identifier: Apache-2.0
// Takes the output of mpiexec apart: which rank wrote what.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace rueda {

// Purpose: Hydra mixes the output of all ranks into one stream and puts a label before each piece; a piece
// ends at a line end or at the next label, and may be any part of a line. The label carries a random token,
// so no rank's own output is taken for one. What stands outside a piece is mpiexec's own. Owner: the main
// thread.
class OutputDemux {
 public:
  static constexpr int kMpiexec = -1;
  using Consumer = std::function<void(int rank, std::string_view text)>;

  OutputDemux(const std::string& token, Consumer consumer);

  // For Hydra's -prepend-pattern.
  static std::string label_pattern(const std::string& token);

  void feed(std::string_view bytes);
  void finish();  // the stream has ended

 private:
  bool take_label();
  bool take_text(bool ended);
  std::string_view rest() const { return std::string_view(buffer_).substr(position_); }
  void pass_on(std::size_t count);

  std::string start_;  // how every label starts
  Consumer consumer_;
  std::string buffer_;
  std::size_t position_ = 0;  // what lies before is done with
  int rank_ = kMpiexec;       // whose piece the rest starts in
};

}  // namespace rueda
