#!/bin/sh
# Makes this directory anew: a tiny archive of two suites, signed by keys that are thrown away. Takes gnupg and dpkg-deb.
# bullseye is signed by the old key, and has a package debian-archive-keyring with both; trixie is signed by the new one.
set -eu
cd "$(dirname "$0")"
rm -rf dists pool old.gpg both.gpg
GNUPGHOME=$(mktemp -d) && export GNUPGHOME
trap 'rm -rf "$GNUPGHOME" package' EXIT

for key in old new; do
    gpg --batch --quiet --faked-system-time 20240101T000000 --passphrase '' --quick-generate-key "$key archive key of a test" ed25519 sign never
done
gpg --batch --export 'old archive' >old.gpg
gpg --batch --export >both.gpg

mkdir -p package/DEBIAN package/usr/share/keyrings pool
cp both.gpg package/usr/share/keyrings/debian-archive-keyring.gpg
cat >package/DEBIAN/control <<CONTROL
Package: debian-archive-keyring
Version: 9999.1
Architecture: all
Maintainer: nobody <nobody@example.org>
Description: keys of a test
CONTROL
dpkg-deb --root-owner-group --build package pool/debian-archive-keyring_9999.1_all.deb >/dev/null

hash() { sha256sum "$1" | cut -d ' ' -f 1; }
size() { stat -c %s "$1"; }
deb=pool/debian-archive-keyring_9999.1_all.deb
for suite in bullseye:old trixie:new; do
    name=${suite%:*} key=${suite#*:}
    mkdir -p dists/$name/main
    packages=dists/$name/main/Packages
    { cat package/DEBIAN/control; echo "Filename: $deb"; echo "Size: $(size $deb)"; echo "SHA256: $(hash $deb)"; } >$packages
    {
        echo "Origin: Debian"
        echo "Suite: $name"
        echo "Codename: $name"
        echo "Date: Tue, 02 Jan 2024 00:00:00 UTC"
        echo "Architectures: all amd64 arm64"
        echo "Components: main"
        echo "SHA256:"
        for architecture in all amd64 arm64; do
            echo " $(hash $packages) $(size $packages) main/binary-$architecture/Packages"
        done
    } | gpg --batch --quiet --faked-system-time 20240102T000000 --local-user "$key archive" --clearsign >dists/$name/InRelease
done
