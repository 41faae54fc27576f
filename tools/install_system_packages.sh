#!/usr/bin/env bash
# Installs the packages of system_packages.txt that are missing, if this user may: as root, or with
# a sudo that asks for no password. Otherwise it prints the command; tests that need a package then
# skip and say so, or fail if the environment variable CI is set.
set -euo pipefail
cd "$(dirname "$0")"
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || exit 0

missing=()
for name in $(sed -E 's/#.*//' system_packages.txt | awk '{print $1}'); do
    command -v "$name" >/dev/null && continue  # npm comes with some builds of Node
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ]; then
    root=()
elif sudo -n true 2>/dev/null; then
    root=(sudo -n)
else
    echo "Some tests need more packages: apt-get install ${missing[*]}"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
echo "Installing ${missing[*]}"
install() { "${root[@]}" apt-get install -qq -y --no-install-recommends "$@" >/dev/null; }
install "${missing[@]}" 2>/dev/null && exit 0
# The list of packages may be old, or one of the names unknown to this system.
"${root[@]}" apt-get update -qq || true
for name in "${missing[@]}"; do
    install "$name" || echo "$name could not be installed"
done
