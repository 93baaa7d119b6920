// The signature of the requests to Horovod's rendezvous server, as in request_signature.py, which says what it is for;
// build.py adds this file to Horovod.
//
// SHA-256 is written from FIPS 180-4 (sections 4.1.2, 4.2.2, 5.1.1, 5.3.3 and 6.2), HMAC from RFC 2104.

#ifndef LOCKSTEP_REQUEST_SIGNATURE_H
#define LOCKSTEP_REQUEST_SIGNATURE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace request_signature {

constexpr std::size_t BLOCK_BYTES = 64;

constexpr std::uint32_t ROUND_CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

inline std::uint32_t rotate_right(std::uint32_t word, int bits) { return (word >> bits) | (word << (32 - bits)); }

// The 32 bytes of the message's SHA-256.
inline std::string sha256(std::string message) {
  const std::uint64_t message_bits = 8 * static_cast<std::uint64_t>(message.size());
  message += '\x80';
  while (message.size() % BLOCK_BYTES != BLOCK_BYTES - 8) {
    message += '\0';
  }
  for (int shift = 56; shift >= 0; shift -= 8) {
    message += static_cast<char>(message_bits >> shift);
  }

  std::array<std::uint32_t, 8> hash = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (std::size_t block = 0; block < message.size(); block += BLOCK_BYTES) {
    std::uint32_t schedule[64];
    for (int t = 0; t < 16; ++t) {
      schedule[t] = 0;
      for (int byte = 0; byte < 4; ++byte) {
        schedule[t] = schedule[t] << 8 | static_cast<std::uint8_t>(message[block + 4 * t + byte]);
      }
    }
    for (int t = 16; t < 64; ++t) {
      const std::uint32_t s0 = schedule[t - 15], s1 = schedule[t - 2];
      schedule[t] = schedule[t - 16] + (rotate_right(s0, 7) ^ rotate_right(s0, 18) ^ (s0 >> 3)) +
                    schedule[t - 7] + (rotate_right(s1, 17) ^ rotate_right(s1, 19) ^ (s1 >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = hash;
    for (int t = 0; t < 64; ++t) {
      const std::uint32_t first = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                                  ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[t] + schedule[t];
      const std::uint32_t second =
          (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const std::uint32_t working[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) {
      hash[i] += working[i];
    }
  }

  std::string digest;
  for (const std::uint32_t word : hash) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      digest += static_cast<char>(word >> shift);
    }
  }
  return digest;
}

// The 32 bytes of the message's HMAC-SHA256 by the key.
inline std::string hmac_sha256(std::string key, const std::string& message) {
  if (key.size() > BLOCK_BYTES) {
    key = sha256(key);
  }
  key.resize(BLOCK_BYTES, '\0');
  std::string inner, outer;
  for (const char byte : key) {
    inner += static_cast<char>(byte ^ 0x36);
    outer += static_cast<char>(byte ^ 0x5c);
  }
  return sha256(outer + sha256(inner + message));
}

inline std::string hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<std::uint8_t>(byte);
    text += "0123456789abcdef"[value >> 4];
    text += "0123456789abcdef"[value & 15];
  }
  return text;
}

// The job's key; throws std::runtime_error if there is none.
inline std::string job_key() {
  const char* key = std::getenv("_HOROVOD_SECRET_KEY");
  if (key == nullptr || *key == '\0') {
    throw std::runtime_error("_HOROVOD_SECRET_KEY is not in the environment, so requests to horovodrun can't be signed: "
                             "start this process with horovodrun, or with the key of the job that it is to join.");
  }
  return key;
}

// The two header lines, each with its end, that sign a request.
inline std::string header_lines(const std::string& method, const std::string& path, const std::string& body) {
  const std::string digest = hexadecimal(sha256(body));
  const std::string signature = hexadecimal(hmac_sha256(job_key(), method + " " + path + " " + digest));
  return "Horovod-Body: " + digest + "\r\nHorovod-Signature: " + signature + "\r\n";
}

} // namespace request_signature

#endif // LOCKSTEP_REQUEST_SIGNATURE_H
