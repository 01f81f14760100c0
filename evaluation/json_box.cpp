#include "evaluation/json_box.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace mprdma {

JsonBox::JsonBox() : JsonBox(nlohmann::json::array()) {}
JsonBox::JsonBox(const nlohmann::json& value) : value_(std::make_unique<nlohmann::json>(value)) {}
JsonBox::JsonBox(const JsonBox& other) : JsonBox(*other) {}
JsonBox::JsonBox(JsonBox&& other) noexcept = default;
JsonBox::~JsonBox() = default;

JsonBox& JsonBox::operator=(JsonBox other) noexcept {
  value_ = std::move(other.value_);
  return *this;
}

namespace {

template <class T>
void set_member(nlohmann::json& object, const char* key, T value) {
  if (object.empty()) object = nlohmann::json::object();
  object[key] = value;
}

}  // namespace

void JsonBox::set(const char* key, uint64_t value) {
  set_member(*value_, key, value);
}

void JsonBox::set(const char* key, double value) {
  set_member(*value_, key, value);
}

}  // namespace mprdma
