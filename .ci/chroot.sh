# A temporary Debian system for .ci/bare and .ci/newest. To be sourced, as root.
# MSGRLAB_MIRROR and MSGRLAB_KEYRING are those of `msgrlab images`.

mirror=${MSGRLAB_MIRROR:-http://deb.debian.org/debian}
keyring=${MSGRLAB_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
name=${0##*/}
root=$(mktemp -d "/var/tmp/msgrlab-$name.XXXXXX")
chmod 755 "$root" # other users may enter, as on any machine
log=$(mktemp)
trap 'rm -rf --one-file-system "$root"; rm -f "$log"' EXIT

fail() {
    echo "$name: $*" >&2
    exit 1
}

# Run a long command; show its output only if it fails.
step() {
    local what=$1 start=$SECONDS
    shift
    "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "$what failed after $((SECONDS - start)) s"; }
    echo "$name: $what: $((SECONDS - start)) s"
}

# bootstrap SUITE PACKAGES OPTION...: install Debian in the root, and clone this checkout to /root/msgrlab there.
bootstrap() {
    local suite=$1 packages=$2
    shift 2
    wget --quiet --spider --tries=1 --timeout=20 "$mirror/dists/$suite/InRelease" ||
        fail "no Debian mirror answers at $mirror (MSGRLAB_MIRROR names another one): nothing was tested"
    step "debootstrap" timeout --kill-after=5 300 unshare --mount --pid --fork --kill-child \
        debootstrap "$@" --variant=minbase --include="$packages" "$suite" "$root" "$mirror"
    step "clone" git clone --no-hardlinks . "$root/root/msgrlab"
}

# wheels OPTION...: download the locked packages, for Debian's Python or by options of `pip download`, to /root/wheels.
wheels() {
    # The versions depend on the patch level of Python, so use that of the Debian system.
    step "python" /usr/bin/python3 -m venv "$root/var/tmp/downloads"
    step "wheels" "$root/var/tmp/downloads/bin/python" -m pip download --require-hashes --no-deps \
        --no-build-isolation --requirement requirements/build.txt --requirement requirements/ci.txt \
        --dest "$root/root/wheels" "$@"
    rm -r "$root/var/tmp/downloads"
}

# Run a command in the root file system with only a loopback network: the wheels are there, and tests need no more.
within() {
    unshare --mount --pid --net --fork --kill-child sh -ec '
        ip link set lo up
        mount --make-rprivate /
        mount --bind "$1" "$1" # a root that is a mount, as on any machine
        mount -t proc proc "$1/proc"
        mount -t sysfs sysfs "$1/sys"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs tmpfs "$1/run"
        exec chroot "$@"' \
        sh "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin PIP_NO_INDEX=1 PIP_FIND_LINKS=/root/wheels \
        sh -ec 'cd /root/msgrlab; exec "$@"' sh "$@"
}
