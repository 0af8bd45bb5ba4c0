#!/usr/bin/env bash
# pip.sh PIP ARGUMENT...: runs pip; when it fails by a certificate, one line says what to set.
set -uo pipefail

said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$@" 2>"$said"
code=$?
if [ $code != 0 ] && grep -q 'CERTIFICATE_VERIFY_FAILED' "$said"; then
  echo "pip does not trust the certificate it is shown: behind a proxy that inspects TLS, set PIP_CERT and REQUESTS_CA_BUNDLE to the file of its CA" >&2
else
  cat "$said" >&2
fi
exit $code
