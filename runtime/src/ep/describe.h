// SPDX-License-Identifier: Apache-2.0

// A description of a backend on this machine, as JSON for users.
#ifndef POOLGRAD_EP_DESCRIBE_H_
#define POOLGRAD_EP_DESCRIBE_H_

#include <string>

namespace poolgrad::ep {

// request "host" or "cann": an object with
//   backend, problem (null if sessions can use it), libraries [{path, problem}], packages [{name, version}],
//   missing_symbols [name], functions [{name, library}] of aclnn, devices (a number), soc, product,
//   operators [{name, functions [name], missing [name], refused {name: {type: reason}}}] of the dialect on this
//   product.
// request "host routes" or "cann routes": a list of
//   {operator, rank (of x), argmax (its type), function (of aclnn)} on this product.
// request "auto": an object with the backend that "auto" chooses, and the reason.
// Unknown values are null, or left out of their list. Throws InvalidArgument for another request.
std::string Describe(const std::string& request);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_DESCRIBE_H_
