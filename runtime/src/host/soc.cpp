#include "host/soc.h"

namespace poolgrad::host {
namespace {

constexpr Soc kSocs[] = {
    {"Ascend910A", Product::kAscend910},        {"Ascend910B", Product::kAscend910},
    {"Ascend910PremiumA", Product::kAscend910}, {"Ascend910ProA", Product::kAscend910},
    {"Ascend910ProB", Product::kAscend910},     {"Ascend910B1", Product::kAscend910B},
    {"Ascend910B2", Product::kAscend910B},      {"Ascend910B2C", Product::kAscend910B},
    {"Ascend910B3", Product::kAscend910B},      {"Ascend910B4", Product::kAscend910B},
    {"Ascend910B4-1", Product::kAscend910B},    {"Ascend910_9362", Product::kAscend910_93},
    {"Ascend910_9363", Product::kAscend910_93}, {"Ascend910_9372", Product::kAscend910_93},
    {"Ascend910_9381", Product::kAscend910_93}, {"Ascend910_9382", Product::kAscend910_93},
    {"Ascend910_9391", Product::kAscend910_93}, {"Ascend910_9392", Product::kAscend910_93},
    {"Ascend310P1", Product::kAscend310P},      {"Ascend310P3", Product::kAscend310P},
    {"Ascend310P5", Product::kAscend310P},      {"Ascend310P7", Product::kAscend310P},
    {"Ascend310B1", Product::kAscend310B},      {"Ascend310B2", Product::kAscend310B},
    {"Ascend310B3", Product::kAscend310B},      {"Ascend310B4", Product::kAscend310B},
    {"Ascend950DT_950x", Product::kAscend950},  {"Ascend950DT_950y", Product::kAscend950},
    {"Ascend950DT_9571", Product::kAscend950},  {"Ascend950DT_9572", Product::kAscend950},
    {"Ascend950DT_9573", Product::kAscend950},  {"Ascend950DT_9574", Product::kAscend950},
    {"Ascend950DT_9575", Product::kAscend950},  {"Ascend950DT_9576", Product::kAscend950},
    {"Ascend950DT_9577", Product::kAscend950},  {"Ascend950DT_9578", Product::kAscend950},
    {"Ascend950DT_9581", Product::kAscend950},  {"Ascend950DT_9581x", Product::kAscend950},
    {"Ascend950DT_9582", Product::kAscend950},  {"Ascend950DT_9582x", Product::kAscend950},
    {"Ascend950DT_9583", Product::kAscend950},  {"Ascend950DT_9584", Product::kAscend950},
    {"Ascend950DT_9585", Product::kAscend950},  {"Ascend950DT_9586", Product::kAscend950},
    {"Ascend950DT_9587", Product::kAscend950},  {"Ascend950DT_9588", Product::kAscend950},
    {"Ascend950DT_9591", Product::kAscend950},  {"Ascend950DT_9592", Product::kAscend950},
    {"Ascend950DT_9595", Product::kAscend950},  {"Ascend950DT_9596", Product::kAscend950},
    {"Ascend950DT_95A1", Product::kAscend950},  {"Ascend950DT_95A2", Product::kAscend950},
    {"Ascend950PR_950z", Product::kAscend950},  {"Ascend950PR_9579", Product::kAscend950},
    {"Ascend950PR_957b", Product::kAscend950},  {"Ascend950PR_957bx", Product::kAscend950},
    {"Ascend950PR_957c", Product::kAscend950},  {"Ascend950PR_957d", Product::kAscend950},
    {"Ascend950PR_9589", Product::kAscend950},  {"Ascend950PR_958b", Product::kAscend950},
    {"Ascend950PR_9599", Product::kAscend950},
};

}  // namespace

const char* ProductName(Product product) {
  switch (product) {
    case Product::kAscend910:
      return "Ascend910";
    case Product::kAscend910B:
      return "Ascend910B";
    case Product::kAscend910_93:
      return "Ascend910_93";
    case Product::kAscend310P:
      return "Ascend310P";
    case Product::kAscend310B:
      return "Ascend310B";
    case Product::kAscend950:
      return "Ascend950";
  }
  return "unknown product";
}

const Soc* FindSoc(std::string_view name) {
  for (const Soc& soc : kSocs) {
    if (soc.name == name) return &soc;
  }
  return nullptr;
}

}  // namespace poolgrad::host
