# shellcheck shell=bash
# What the scripts of this folder ask about a built program. They read it with readelf.

# Ends the script if the program was built for tests.
refuse_test_build() {
  # The first is in the builds that hold the deliberate defects of the engine's own tests. The second is what the program says of itself.
  if grep -q "BEGIN; -- without a barrier" "$1" || [[ $("$1" self --json) == *'"debug_assertions": true'* ]]; then
    echo "$1 was built with debug assertions, for tests: build it with cargo build --profile dist -p seawall --locked" >&2
    exit 1
  fi
}

# Whether the program starts without a loader and libraries of the system.
is_static() {
  local segments
  segments=$(readelf --program-headers --wide "$1")
  [[ $segments != *INTERP* ]]
}

# The loader that the program names.
loader_of() {
  readelf --program-headers --wide "$1" | sed -n 's/.*program interpreter: \(.*\)\]/\1/p'
}

# Whether the program names this library.
needs_library() {
  local sections
  sections=$(readelf --dynamic --wide "$1")
  [[ $sections == *"[$2]"* ]]
}

# The oldest glibc that has every function that the program calls.
glibc_of() {
  readelf --version-info --wide "$1" | grep -o 'GLIBC_[0-9][0-9.]*' | cut -d_ -f2 | sort -uV | tail -n 1
}
