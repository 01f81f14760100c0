// Replaces the fake engine's functions in tests over the real engine, which has nothing to look
// into. The engine is in a library of its own, as for any application.
#include "tests/provider/fake_engine.hpp"

namespace mprdma::provider_test {

uint32_t fake_engine_objects() {
  return 0;
}
void fake_engine_features(uint64_t) {}

}  // namespace mprdma::provider_test
