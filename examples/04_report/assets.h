// SPDX-License-Identifier: Apache-2.0
// page.css and page.js, inside the program so that it needs no files beside it.
#pragma once

namespace rueda::examples::report {

extern const char* const kStyle;
extern const char* const kScript;

}  // namespace rueda::examples::report
