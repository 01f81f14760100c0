// The revision that a program was built from, for its version line and its results. A program that
// wants it links revision_dep.
#pragma once

namespace mprdma {

const char* revision();

}  // namespace mprdma
