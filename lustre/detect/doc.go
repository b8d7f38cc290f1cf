// Package detect finds out which file system a path is on, and which package answers for it.
//
// [Open] opens a path so that nothing is restored from an archive by that, reads the type
// of its file system and its line in the table of mounts, and returns a [Handle]. That is the
// descriptor that questions are asked with, and the [lustre.System] with the answers
// of package client, gpfs, cephfs or localfs. [At] does it for a descriptor that is open.
//
// The kernel's number of a file system decides, and the table of mounts only where one
// number stands for several (FUSE, ext2 to ext4) or for something else (a server of Lustre
// mounts its targets with the type of a client). The line is found by the number of the
// mount, so that it is the right one for bind mounts, several mounts on one directory and
// the subvolumes of btrfs. Names in it can be anything, and are only shown; so is the type
// behind "fuse.", which any user with the right to mount can choose.
//
// A Handle may be used by many goroutines until it is closed. To remember the answer for a
// file system (by st_dev) is the caller's business. TestKinds and TestOnDisk show what is found,
// TestMountsAreToldApart and TestUnreachable which mount is believed.
package detect
