// SPDX-License-Identifier: Apache-2.0
// The files of the page, which are part of ruedarun.
#pragma once

#include <span>
#include <string_view>

namespace rueda {

struct PageAsset {
  std::string_view name;  // "index.html"
  std::string_view content_type;
  std::string_view text;
};

// Those of launcher/page/assets, as they were when ruedarun was built.
std::span<const PageAsset> page_assets();

}  // namespace rueda
