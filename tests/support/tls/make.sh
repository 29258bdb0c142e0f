#!/bin/sh
# Makes the certificates in this folder anew, good for a hundred years, by the recipe of docs/tls.md.
set -eu
cd "$(dirname "$0")"
NEW="-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500"

authority() { # name: a key that is thrown away, and a certificate
    # shellcheck disable=SC2086 # several words
    openssl req $NEW -subj "/CN=$1" -addext keyUsage=critical,keyCertSign,cRLSign -keyout "$1.ca.key" -out "$1.ca.crt"
}

signed() { # name authority [names]
    # shellcheck disable=SC2086
    openssl req $NEW -subj "/CN=$1" -CA "$2.ca.crt" -CAkey "$2.ca.key" -addext basicConstraints=critical,CA:FALSE \
        -addext keyUsage=critical,digitalSignature ${3:+-addext "subjectAltName=$3"} -keyout "$1.key" -out "$1.crt"
}

for name in authority ca other; do authority "$name"; done
signed server authority DNS:localhost,DNS:queue.example.org,IP:127.0.0.1
signed client authority
signed node ca
signed stranger other
mv authority.ca.crt authority.crt
mv ca.ca.crt ca.crt
rm -f ./*.ca.key other.ca.crt
