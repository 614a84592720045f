// SPDX-License-Identifier: Apache-2.0

// Written by tools/operator_tables from the rows of the dialect.
#ifndef POOLGRAD_ABI_SOC_TABLE_H_
#define POOLGRAD_ABI_SOC_TABLE_H_

namespace poolgrad {

// clang-format off
// The products that have operators for the pools and their gradients; those that behave alike in aclnn are one here.
enum class AclnnProduct {
  kUnsupported,
  kAscend950,
  kAtlasA2A3,
};

struct AclnnProductName {
  AclnnProduct product;
  const char* name;
};

constexpr AclnnProductName kAclnnProducts[] = {
    {AclnnProduct::kUnsupported, "unsupported"},
    {AclnnProduct::kAscend950, "Ascend 950"},
    {AclnnProduct::kAtlasA2A3, "Atlas A2/A3"},
};

// Named by CANN's short SoC name: 910B is Atlas A2, 910_93 is Atlas A3.
enum class SocProduct {
  kAscend950,
  kAscend910_93,
  kAscend910B,
  kAscend350,
  kAscend310B,
  kAscend310P,
  kAscend910,
};

struct SocProductRow {
  SocProduct product;
  const char* name;
  AclnnProduct aclnn;
};

constexpr SocProductRow kSocProducts[] = {
    {SocProduct::kAscend950, "Ascend950", AclnnProduct::kAscend950},
    {SocProduct::kAscend910_93, "Ascend910_93", AclnnProduct::kAtlasA2A3},
    {SocProduct::kAscend910B, "Ascend910B", AclnnProduct::kAtlasA2A3},
    {SocProduct::kAscend350, "Ascend350", AclnnProduct::kUnsupported},
    {SocProduct::kAscend310B, "Ascend310B", AclnnProduct::kUnsupported},
    {SocProduct::kAscend310P, "Ascend310P", AclnnProduct::kUnsupported},
    {SocProduct::kAscend910, "Ascend910", AclnnProduct::kUnsupported},
};

struct Soc {
  const char* name;
  SocProduct product;
};

constexpr Soc kSocs[] = {
    {"Ascend950PR_950z", SocProduct::kAscend950},
    {"Ascend950PR_9579", SocProduct::kAscend950},
    {"Ascend950PR_957b", SocProduct::kAscend950},
    {"Ascend950PR_957bx", SocProduct::kAscend950},
    {"Ascend950PR_957c", SocProduct::kAscend950},
    {"Ascend950PR_957d", SocProduct::kAscend950},
    {"Ascend950PR_9589", SocProduct::kAscend950},
    {"Ascend950PR_958b", SocProduct::kAscend950},
    {"Ascend950PR_9599", SocProduct::kAscend950},
    {"Ascend950DT_950x", SocProduct::kAscend950},
    {"Ascend950DT_950y", SocProduct::kAscend950},
    {"Ascend950DT_9571", SocProduct::kAscend950},
    {"Ascend950DT_9572", SocProduct::kAscend950},
    {"Ascend950DT_9573", SocProduct::kAscend950},
    {"Ascend950DT_9574", SocProduct::kAscend950},
    {"Ascend950DT_9575", SocProduct::kAscend950},
    {"Ascend950DT_9576", SocProduct::kAscend950},
    {"Ascend950DT_9577", SocProduct::kAscend950},
    {"Ascend950DT_9578", SocProduct::kAscend950},
    {"Ascend950DT_9581", SocProduct::kAscend950},
    {"Ascend950DT_9581x", SocProduct::kAscend950},
    {"Ascend950DT_9582", SocProduct::kAscend950},
    {"Ascend950DT_9582x", SocProduct::kAscend950},
    {"Ascend950DT_9583", SocProduct::kAscend950},
    {"Ascend950DT_9584", SocProduct::kAscend950},
    {"Ascend950DT_9585", SocProduct::kAscend950},
    {"Ascend950DT_9586", SocProduct::kAscend950},
    {"Ascend950DT_9587", SocProduct::kAscend950},
    {"Ascend950DT_9588", SocProduct::kAscend950},
    {"Ascend950DT_9591", SocProduct::kAscend950},
    {"Ascend950DT_9592", SocProduct::kAscend950},
    {"Ascend950DT_9595", SocProduct::kAscend950},
    {"Ascend950DT_9596", SocProduct::kAscend950},
    {"Ascend950DT_95A1", SocProduct::kAscend950},
    {"Ascend950DT_95A2", SocProduct::kAscend950},
    {"Ascend910_9362", SocProduct::kAscend910_93},
    {"Ascend910_9363", SocProduct::kAscend910_93},
    {"Ascend910_9372", SocProduct::kAscend910_93},
    {"Ascend910_9381", SocProduct::kAscend910_93},
    {"Ascend910_9382", SocProduct::kAscend910_93},
    {"Ascend910_9391", SocProduct::kAscend910_93},
    {"Ascend910_9392", SocProduct::kAscend910_93},
    {"Ascend910B1", SocProduct::kAscend910B},
    {"Ascend910B2", SocProduct::kAscend910B},
    {"Ascend910B2C", SocProduct::kAscend910B},
    {"Ascend910B3", SocProduct::kAscend910B},
    {"Ascend910B4", SocProduct::kAscend910B},
    {"Ascend910B4-1", SocProduct::kAscend910B},
    {"Ascend350_354f", SocProduct::kAscend350},
    {"Ascend350_355e", SocProduct::kAscend350},
    {"Ascend310B1", SocProduct::kAscend310B},
    {"Ascend310B2", SocProduct::kAscend310B},
    {"Ascend310B3", SocProduct::kAscend310B},
    {"Ascend310B4", SocProduct::kAscend310B},
    {"Ascend310P1", SocProduct::kAscend310P},
    {"Ascend310P3", SocProduct::kAscend310P},
    {"Ascend310P5", SocProduct::kAscend310P},
    {"Ascend310P7", SocProduct::kAscend310P},
    {"Ascend910A", SocProduct::kAscend910},
    {"Ascend910ProA", SocProduct::kAscend910},
    {"Ascend910ProB", SocProduct::kAscend910},
    {"Ascend910PremiumA", SocProduct::kAscend910},
    {"Ascend910B", SocProduct::kAscend910},
};
// clang-format on

}  // namespace poolgrad

#endif  // POOLGRAD_ABI_SOC_TABLE_H_
