// SPDX-License-Identifier: Apache-2.0
// Published results of such jobs, to stand beside one's own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rueda::report {

// Minutes of training on a number of devices (GPUs, machines or nodes: `unit`).
struct PublishedScaling {
  struct Point {
    double devices = 1;
    double minutes = 0;
  };
  std::string name;
  std::string unit;
  std::size_t color = 0;  // of Look::Kind::published: a publication has the same in every chart
  std::vector<Point> points;
};

// Minutes of training when ranks synchronise once per `batches`; F1 where it was published.
struct PublishedSync {
  struct Point {
    double batches = 1;
    double minutes = 0;  // 0: not published
    double f1 = 0;       // 0: not published
  };
  std::string name;
  std::string unit;
  std::size_t color = 0;  // of Look::Kind::published: a publication has the same in every chart
  std::vector<Point> points;
};

const std::vector<PublishedScaling>& published_scaling();
const std::vector<PublishedSync>& published_sync();

}  // namespace rueda::report
