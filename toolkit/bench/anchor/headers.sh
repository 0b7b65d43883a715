# The headers that msgr-anchor.cc is compiled with, in /build of a Debian that has librados2 and a deb-src line: those of
# the source package of just that version, and what Ceph's own build would generate. Run by build.py in a chroot.
set -eu
cd /build
version=$(dpkg-query --show --showformat '${Version}' librados2)
apt-get -qq -o Acquire::Check-Valid-Until=false update
apt-get -qq source --download-only --tar-only "ceph=$version"
set -- 'ceph-*/src/ceph_release' 'ceph-*/src/common/options'
for folder in auth common compressor crush fmt/include global include log messages msg; do
    set -- "$@" "*-*/src/$folder/*.h*"
done
tar --extract --xz --file ceph_*.xz --strip-components=1 --wildcards "$@"
rm ceph_*.xz
# None of the headers above needs what Ceph's build would write here.
: >acconfig.h
{ read -r number; read -r name; read -r type; } <src/ceph_release
cat >ceph_release.h <<END
#define CEPH_RELEASE $number
#define CEPH_RELEASE_NAME "$name"
#define CEPH_RELEASE_TYPE "$type"
END
# Options are members of a struct, in the order of these files; their defaults are the library's own.
for yaml in src/common/options/*.yaml.in; do
    sed "s/: @[A-Za-z_]*@\$/: '9'/; s/@[A-Za-z_]*@/9/g" "$yaml" >options.yaml
    name=$(basename "$yaml" .yaml.in)
    python3 src/common/options/y2c.py --input options.yaml --output /dev/null --name "$name" \
        --legacy "${name}_legacy_options.h"
done
echo "$version" >of-version
