#!/bin/sh
# Make the images that docker/local/override.yaml names, from Debian's mirror, PyPI and npm. Needs root, debootstrap and
# a Docker engine; takes some minutes the first time. This machine's certificates and pip settings go into them.
set -eu
cd "$(dirname "$0")"
export DOCKER_BUILDKIT=0
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
if ! docker image inspect inferbench/local-debian:12 >/dev/null 2>&1; then
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" >&2
  rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/archives/*.deb
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
  tar --create --directory "$root" . | docker import - inferbench/local-debian:12 >&2
fi
for target in python postgres redis mongo; do
  docker build --network host --target "$target" --tag "inferbench/local-$target:1.0" .
done
