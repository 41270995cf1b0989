// SPDX-License-Identifier: Apache-2.0
// Several modules of JavaScript as one script.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launcher/page/page_assets.h"

namespace rueda {

// `entry` and all that it imports, each as a function that runs once, after those that it needs: browsers
// load no modules from a file. It knows the forms that the page has: `import { a, b as c } from "./x.js";`,
// and `export` in front of const, class and function. Throws std::logic_error for other forms, for a missing
// file, and for modules that need each other.
std::string module_bundle(std::span<const PageAsset> assets, std::string_view entry);

}  // namespace rueda
