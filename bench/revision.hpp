// The revision that a measuring program was built from, for its results.
#pragma once

namespace mprdma::bench {

const char* revision();

}  // namespace mprdma::bench
