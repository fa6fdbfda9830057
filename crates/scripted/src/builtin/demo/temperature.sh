#!/bin/sh
# Converts whole degrees: temperature.sh c2f 100, temperature.sh f2c 212.
case "$1" in
  c2f) echo $(( $2 * 9 / 5 - 32 )) ;;
  f2c) echo $(( ($2 - 32) * 5 / 9 )) ;;
  *) echo "usage: temperature.sh c2f|f2c DEGREES" >&2; exit 2 ;;
esac
