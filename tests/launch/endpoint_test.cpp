// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

using testing::HasSubstr;

std::string refusal(const char* text) {
  try {
    parse_endpoint(text, "--rdzv-endpoint");
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    return error.what();
  }
  return {};
}

TEST(Endpoint, HostAndPortTravelApart_LAU_12) {
  const struct {
    const char* text;
    const char* host;
    std::optional<int> port;
  } cases[] = {{"[::1]:29555", "::1", 29555},
               {"[fe80::1%eth0]:1", "fe80::1%eth0", 1},
               {"[2001:db8::7]", "2001:db8::7", std::nullopt},
               {"::1", "::1", std::nullopt},
               {"2001:db8::5", "2001:db8::5", std::nullopt},
               {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", std::nullopt},
               {"127.0.0.1:0", "127.0.0.1", 0},
               {"node-7.cluster:65535", "node-7.cluster", 65535},
               {" node-7 ", "node-7", std::nullopt}};
  for (const auto& one : cases) {
    const Endpoint endpoint = parse_endpoint(one.text, "--rdzv-endpoint");
    EXPECT_EQ(endpoint.host, one.host);
    EXPECT_EQ(endpoint.port, one.port);
  }
}

TEST(Endpoint, AddressThatMayHoldAPortIsRefusedAsAmbiguous_LAU_12) {
  for (const char* text : {"fe80::1:29500", "2001:db8::1:5", "::2:80"}) {
    EXPECT_THAT(refusal(text), HasSubstr("ambiguous"));
    EXPECT_THAT(refusal(text), HasSubstr(text));
    EXPECT_THAT(refusal(text), HasSubstr("--rdzv-endpoint"));
  }
}

TEST(Endpoint, WrongFormsNameTheText) {
  for (const char* text : {"",
                           ":80",
                           "host:",
                           "host:port",
                           "host:65536",
                           "host:-1",
                           "[::1",
                           "[::1]80",
                           "[host]:80",
                           "a:b:c"}) {
    EXPECT_THAT(refusal(text), HasSubstr("'")) << text;
  }
}

TEST(Endpoint, TextPutsBracketsAroundIpv6Only) {
  EXPECT_EQ(endpoint_text("::1", 80), "[::1]:80");
  EXPECT_EQ(endpoint_text("10.0.0.1", 80), "10.0.0.1:80");
}

}  // namespace
}  // namespace lockstep::launch
