#!/bin/sh
# Runs in a guest: exports a disk that is mounted at /export, and mounts it over the
# loopback as NFS 4.2, 4.1 and 4.0 at /nfs42, /nfs41 and /nfs40, and as NFS 3 at /nfs3.
set -eux
mkdir -p /run/rpcbind /var/lib/nfs/v4recovery /nfs42 /nfs41 /nfs40 /nfs3
chmod 1777 /export
mount -t nfsd nfsd /proc/fs/nfsd
echo '/export 127.0.0.1(rw,sync,no_subtree_check,no_root_squash,insecure,fsid=0)' >/etc/exports
: >/var/lib/nfs/etab
: >/var/lib/nfs/rmtab
rpcbind
exportfs -r
rpc.mountd --port 20048
# Nobody has to get back what an earlier server knew.
echo 10 >/proc/fs/nfsd/nfsv4gracetime
echo 10 >/proc/fs/nfsd/nfsv4leasetime
rpc.nfsd -V 4.0 4
echo Y >/proc/fs/nfsd/v4_end_grace
# -i: the kernel needs no help with addresses.
for minor in 2 1 0; do
	mount -i -t nfs4 -o vers=4.$minor,proto=tcp,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/ /nfs4$minor
done
mount -i -t nfs -o vers=3,proto=tcp,port=2049,addr=127.0.0.1,mountproto=tcp,mountvers=3,mountport=20048,mountaddr=127.0.0.1,nolock 127.0.0.1:/export /nfs3
