#!/bin/sh
# Makes the maps in this directory anew. Needs ceph-mon, ceph-common and ceph-base 16.2, and no running cluster.
set -eu
cd "$(dirname "$0")"
here=$PWD
fsid=6fb3a0c4-7d11-4d10-9b76-1c0b6c9d2e55

monmaptool --create --clobber --fsid $fsid --set-min-mon-release pacific --enable-all-features \
    --addv a '[v2:10.1.2.3:3300/0,v1:10.1.2.3:6789/0]' \
    --addv b '[v2:[fd00::1]:3300/0,v1:[fd00::1]:6789/0]' \
    --add c 10.1.2.5 monmap.bin
monmaptool --print monmap.bin > monmap.txt

osdmaptool --createsimple 3 --clobber --with-default-pool osdmap-simple.bin
osdmaptool --dump json osdmap-simple.bin 2>/dev/null > osdmap-simple.json

# A monitor alone, without authentication, keeps every epoch of the map it is told to change.
mon=
work=$(mktemp -d)
trap 'test -z "$mon" || kill "$mon"; rm -rf "$work"' EXIT
cat > "$work/ceph.conf" <<EOF
[global]
fsid = $fsid
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
mon_host = [v2:127.0.0.1:13300/0,v1:127.0.0.1:16789/0]
mon_data = $work/data
run_dir = $work
log_file = $work/log
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_delete = true
EOF
monmaptool --create --fsid $fsid --set-min-mon-release pacific \
    --addv a '[v2:127.0.0.1:13300/0,v1:127.0.0.1:16789/0]' "$work/monmap"
ceph-authtool --create-keyring "$work/keyring" --gen-key -n mon. --cap mon 'allow *'
as_me="--setuser $(id -un) --setgroup $(id -gn)"
ceph-mon -c "$work/ceph.conf" --mkfs -i a --monmap "$work/monmap" --keyring "$work/keyring" $as_me
ceph-mon -c "$work/ceph.conf" -i a -f $as_me &
mon=$!
sleep 4

while read -r command; do
    timeout 20 ceph -c "$work/ceph.conf" $command < /dev/null
done <<EOF
osd set-require-min-compat-client luminous --yes-i-really-mean-it
osd new 11111111-1111-4111-8111-111111111111
osd new 22222222-2222-4222-8222-222222222222
osd setmaxosd 4
osd crush add osd.0 1.0 root=default host=h0
osd crush add osd.1 1.0 root=default host=h1
osd pool create rbd 8
osd pool create doomed 8
osd pool set rbd size 2
osd pool set rbd compression_required_ratio 0.7
osd pool application enable rbd rbd
osd pool mksnap rbd snap1
osd pool set-quota rbd max_objects 1000
osd erasure-code-profile set ec k=2 m=1 crush-failure-domain=osd
osd pool create ecpool 4 4 erasure ec
osd pool delete doomed doomed --yes-i-really-really-mean-it
osd pool rename ecpool erasure
osd set noout
osd unset noout
osd set nodeep-scrub
osd blacklist add 10.9.8.7:0/123
osd primary-affinity 1 0.25
osd pg-upmap-items 1.0 0 1
osd out 1
osd rm 0
EOF
kill "$mon"
wait "$mon" || true
mon=

store() { ceph-kvstore-tool rocksdb "$work/data/store.db" get osdmap "$@" > /dev/null 2>&1; }
last=1
rm -f history/*
mkdir -p history
while store $((last + 1)) out "$here/history/incremental-$((last + 1)).bin"; do last=$((last + 1)); done
store full_1 out "$here/history/full-first.bin"
store full_$last out "$here/history/full-last.bin"
osdmaptool --dump json history/full-last.bin 2>/dev/null > history/full-last.json
echo "epochs 1 to $last"
