#!/bin/sh
# Makes live/ anew: what a real cluster's OSD map went through. Needs ceph-mon, ceph-mgr, ceph-osd and
# ceph-common 16.2, and no running cluster.
set -eu
cd "$(dirname "$0")"
here=$PWD
work=$(mktemp -d)
pids=
trap 'for pid in $pids; do kill -9 "$pid" 2> /dev/null || true; done; rm -rf "$work"' EXIT
fsid=6fb3a0c4-7d11-4d10-9b76-1c0b6c9d2e55
cat > "$work/ceph.conf" <<CONF
[global]
fsid = $fsid
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
mon_host = [v2:127.0.0.1:13301/0,v1:127.0.0.1:16790/0]
public_network = 127.0.0.0/8
mon_data = $work/mon
mgr_data = $work/mgr
osd_data = $work/osd\$id
run_dir = $work
log_file = $work/\$name.log
osd_objectstore = memstore
memstore_device_bytes = 500000000
osd_pool_default_size = 2
osd_pool_default_min_size = 1
osd_crush_chooseleaf_type = 0
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_delete = true
CONF
mkdir "$work/mgr" "$work/osd0" "$work/osd1"
ceph() { timeout 20 ceph -c "$work/ceph.conf" "$@" < /dev/null; }
rados() { timeout 20 rados -c "$work/ceph.conf" "$@"; }

monmaptool --create --fsid $fsid --set-min-mon-release pacific \
    --addv a '[v2:127.0.0.1:13301/0,v1:127.0.0.1:16790/0]' "$work/monmap"
ceph-authtool --create-keyring "$work/keyring" --gen-key -n mon. --cap mon 'allow *'
ceph-mon -c "$work/ceph.conf" --mkfs -i a --monmap "$work/monmap" --keyring "$work/keyring"
ceph-mon -c "$work/ceph.conf" -i a -f &
mon=$!
pids=$mon
sleep 4
ceph-mgr -c "$work/ceph.conf" -i x -f &
pids="$pids $!"
for id in 0 1; do
    uuid=$(cat /proc/sys/kernel/random/uuid)
    ceph osd new "$uuid"
    ceph-osd -c "$work/ceph.conf" -i $id --mkfs --osd-uuid "$uuid"
    ceph-osd -c "$work/ceph.conf" -i $id -f &
    pids="$pids $!"
done
osd1=$!
sleep 8

while read -r command; do ceph $command || true; done <<COMMANDS
osd pool create rbd 8
osd pool mksnap rbd s1
osd set-require-min-compat-client luminous --yes-i-really-mean-it
osd pg-upmap 2.0 1 0
osd pg-upmap-items 2.1 0 1
osd rm-pg-upmap 2.0
osd rm-pg-upmap-items 2.1
osd pg-temp 2.2 1 0
osd primary-temp 2.3 1
osd reweight 1 0.5
osd out 1
osd in 1
osd blocklist add 10.9.8.7:0/123 3600
osd blocklist add 10.9.8.6:0/5 3600
osd blocklist rm 10.9.8.7:0/123
osd set-group noup,noout osd.0
osd unset-group noup osd.0
osd set-group noout hdd
osd set-group noout default
osd unset-group noout default
osd crush reweight osd.1 0.7
osd primary-affinity 0 0.5
osd pool create two 4
osd pool set two pg_num 8
osd pool set two pg_num 4
osd pool set two compression_mode force
COMMANDS
for snap in s1 s2 s3 s4 s5; do rados -p two mksnap $snap; done
for snap in s2 s3 s5 s1; do rados -p two rmsnap $snap; done
ceph osd set-nearfull-ratio 0.8
ceph osd set-full-ratio 0.96
ceph osd down 1
sleep 3
ceph osd pool create cache 4
ceph osd tier add two cache --force-nonempty
ceph osd tier cache-mode cache writeback
ceph osd tier set-overlay two cache
ceph osd pool set cache hit_set_type bloom
kill "$osd1"
sleep 6
ceph osd stop 1
ceph osd destroy 1 --yes-i-really-mean-it
kill "$mon"
wait "$mon" || true

# Increments say how long they are, so they lie one behind the other.
store() { ceph-kvstore-tool rocksdb "$work/mon/store.db" get osdmap "$@" > /dev/null 2>&1; }
rm -rf live
mkdir live
epoch=2
while store $epoch out "$work/increment"; do
    cat "$work/increment" >> "$work/increments"
    epoch=$((epoch + 1))
done
xz -9 -c "$work/increments" > live/incrementals.bin.xz
store full_1 out "$here/live/full-first.bin"
store full_$((epoch - 1)) out "$here/live/full-last.bin"
osdmaptool --dump json live/full-last.bin 2> /dev/null > live/full-last.json
echo "epochs 1 to $((epoch - 1))"
