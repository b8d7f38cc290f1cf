// Package inotify is the feed of a file system that this kernel alone changes: the disks of a node, ext4, xfs, btrfs, tmpfs. What other hosts do on NFS, Lustre and
// their like it is not told, and refuses them.
//
// It is inotify(7), which needs no capability, but a watch for each directory, which it has to find first, and of which a user has so many
// (fs.inotify.max_user_watches; some 1 KiB of kernel memory each). fanotify(7) would hear of a whole file system with one mark; it takes CAP_SYS_ADMIN, which an agent does not have.
//
// It has no memory: a Run begins by listening, and then says All. Where the queue of the kernel has overflowed, it says All, too.
//
// What it does not tell: that a file was read (its access time), what is written into a shared mapping before it is closed, and, of a file with several names, that the others
// have changed, too.
//
// Names are what the kernel says, raw bytes. A Run is one goroutine beside the one that takes; both have ended when it returns. TestModel compares with a scan after random changes, TestKill after kills,
// TestOverflow with a queue that is too short.
package inotify
