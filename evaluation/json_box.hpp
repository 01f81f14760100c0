// A JSON value for headers: what holds one need not include nlohmann's library, which takes longer
// to compile than most of our files. Who looks into the value includes <nlohmann/json.hpp>.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace mprdma {

class JsonBox {
 public:
  // An empty array.
  JsonBox();
  // An implicit conversion, as nlohmann's own ones are.
  JsonBox(const nlohmann::json& value);
  JsonBox(const JsonBox& other);
  JsonBox(JsonBox&& other) noexcept;
  JsonBox& operator=(JsonBox other) noexcept;
  ~JsonBox();

  [[nodiscard]] const nlohmann::json& operator*() const { return *value_; }
  [[nodiscard]] nlohmann::json& operator*() { return *value_; }
  // Sets a member of an object, which an empty value becomes.
  void set(const char* key, uint64_t value);
  void set(const char* key, double value);

 private:
  std::unique_ptr<nlohmann::json> value_;  // nullptr: moved from
};

}  // namespace mprdma
