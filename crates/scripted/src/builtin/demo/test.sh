#!/bin/sh
# Checks temperature.sh with values everybody knows.
cd "$(dirname "$0")" || exit 2
failed=0

check() { # check MODE DEGREES EXPECTED
  got=$(sh ./temperature.sh "$1" "$2")
  if [ "$got" = "$3" ]; then
    echo "ok      $1 $2 = $3"
  else
    echo "FAILED  $1 $2 = $3, got $got"
    failed=1
  fi
}

check c2f 0 32
check c2f 100 212
check c2f -40 -40
check f2c 32 0
check f2c 212 100

[ "$failed" -eq 0 ] && echo "all passed"
exit "$failed"
