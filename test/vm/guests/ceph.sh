#!/bin/sh
# Runs in a guest: mounts a CephFS of the host by the kernel's client, as who may do all at
# /ceph, as an ordinary one at /user, and a directory of it at /below.
set -eu
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
mkdir -p /ceph /user /below
# -i: mount.ceph would look up names and keys, and here are addresses and keys. The first two
# have the newer form of a source, and the second version of the protocol (since Linux 5.11
# and 5.17); the third has what was there before.
with() { mount -i -t ceph "$1@$CEPH_ID.cfs=/" "$2" -o "mon_addr=$CEPH_ADDRESS:$CEPH_PORT,secret=$3,ms_mode=prefer-crc"; }
with admin /ceph "$CEPH_ADMIN"
with user /user "$CEPH_USER"
mkdir -p "/ceph/$CEPH_BELOW"
mount -i -t ceph "$CEPH_ADDRESS:$((CEPH_PORT + 1)):/$CEPH_BELOW" /below -o "name=admin,secret=$CEPH_ADMIN,mds_namespace=cfs"
cat /proc/mounts
