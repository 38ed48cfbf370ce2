// What is bound: each file registers its class.
#pragma once

#include <vector>

#include "amforest/options.hpp"
#include "arrays.hpp"

namespace amforest {

// A static object of this type binds a class when the module is imported.
class Registration {
  public:
    using Bind = void (*)(nb::module_ &);

    explicit Registration(Bind bind) { all().push_back(bind); }

    static std::vector<Bind> &all() {
        static std::vector<Bind> registered;
        return registered;
    }
};

nb::dict to_dict(const Options &options);

} // namespace amforest
