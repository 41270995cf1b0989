// SPDX-License-Identifier: Apache-2.0
// TuningParameters in words.
#pragma once

#include <string>

#include "core/base/time.h"
#include "rueda/metrics.h"

namespace rueda {

double in_milliseconds(Duration time);

// Names the parameters that `to` changes, in words: "chunk 1 MiB instead of 256 KiB".
std::string difference(const TuningParameters& from, const TuningParameters& to);

}  // namespace rueda
