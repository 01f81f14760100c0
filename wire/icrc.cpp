#include "wire/icrc.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "wire/bth.hpp"
#include "wire/ethernet.hpp"
#include "wire/icrc_clmul.hpp"
#include "wire/icrc_polynomial.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/udp.hpp"

namespace mprdma::wire {

namespace {

constexpr size_t kSlices = 16;

using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// tables[k][b]: what byte b contributes to the register when k more bytes follow it.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kIcrcPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[slice - 1][byte];
      tables[slice][byte] = previous >> 8 ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

constexpr uint32_t step(uint32_t crc, unsigned char byte) {
  return crc >> 8 ^ kTables[0][(crc ^ byte) & 0xff];
}

constexpr uint32_t register_after_eight_ones() {
  uint32_t crc = 0xffffffff;
  for (int i = 0; i < 8; ++i) crc = step(crc, 0xff);
  return crc;
}
static_assert(register_after_eight_ones() == icrc_init());

uint32_t load_le32(const unsigned char* p) {
  uint32_t value = 0;
  std::memcpy(&value, p, sizeof(value));
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}

// The contribution of four bytes of which the last has `following` bytes behind it in its block.
template <size_t kFollowing>
uint32_t fold(uint32_t word) {
  return kTables[kFollowing + 3][word & 0xff] ^ kTables[kFollowing + 2][word >> 8 & 0xff] ^
         kTables[kFollowing + 1][word >> 16 & 0xff] ^ kTables[kFollowing][word >> 24];
}

uint32_t update_by_tables(uint32_t crc, std::span<const unsigned char> bytes) {
  const unsigned char* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= kSlices; left -= kSlices, p += kSlices) {
    crc = fold<12>(crc ^ load_le32(p)) ^ fold<8>(load_le32(p + 4)) ^ fold<4>(load_le32(p + 8)) ^
          fold<0>(load_le32(p + 12));
  }
  for (; left > 0; --left, ++p) crc = step(crc, *p);
  return crc;
}

// kNone until the initializers of this library have run: the tables serve these.
const IcrcFold kFold = widest_icrc_fold();

}  // namespace

uint32_t icrc_update(uint32_t crc, std::span<const unsigned char> bytes) {
  if (bytes.size() < kIcrcFoldMin || kFold == IcrcFold::kNone) return update_by_tables(crc, bytes);
  return icrc_fold(kFold, crc, bytes);
}

void icrc_mask(unsigned char* network_header, bool is_ipv6) {
  unsigned char* udp = network_header;
  if (is_ipv6) {
    network_header[0] |= 0x0f;                 // traffic class, high half
    std::memset(network_header + 1, 0xff, 3);  // traffic class, low half; flow label
    network_header[7] = 0xff;                  // hop limit
    udp += Ipv6::kBytes;
  } else {
    network_header[1] = 0xff;                   // TOS
    network_header[8] = 0xff;                   // TTL
    std::memset(network_header + 10, 0xff, 2);  // header checksum
    udp += Ipv4Header::kBytes;
  }
  std::memset(udp + 6, 0xff, 2);  // checksum
  udp[Udp::kBytes + Bth::kResv8aOffset] = 0xff;
}

uint32_t icrc_of_frame(unsigned char* headers, size_t header_len, bool is_ipv6,
                       std::span<const unsigned char> body) {
  icrc_mask(headers + Ethernet::kBytes, is_ipv6);
  uint32_t crc = icrc_init();
  crc = icrc_update(crc, {headers + Ethernet::kBytes, header_len - Ethernet::kBytes});
  crc = icrc_update(crc, body);
  return icrc_final(crc);
}

}  // namespace mprdma::wire
