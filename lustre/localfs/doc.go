// Package localfs answers for file systems of one machine, and for those that have no
// answers: qgroups of btrfs, project quotas of ext4 and xfs, how full any of them is, and
// in words why NFS, BeeGFS, JuiceFS and others are asked in vain.
//
// [Answer] gives a [lustre.System] what its kind can do. [Projects] asks ext4 and xfs: a
// directory is put under a project ID, new entries inherit it, and quotactl(2) has the
// limits. [Subvolumes] asks btrfs, where a project is a subvolume: its ID is the
// subvolume's, it is made and removed together with its directory ([lustre.ProjectMaker]), and
// its limit is that of the qgroup 1/ID around it (simple quotas) or 0/ID. [Space] says how full a
// file system is.
//
// Which users are refused at a limit differs, and was seen on Linux 6.1 (ext4, xfs, btrfs) and 6.18
// (btrfs). Ext4 does not enforce limits for a process with CAP_SYS_RESOURCE. Xfs and btrfs enforce
// them for root as for all users. A refused write is EDQUOT on ext4 and btrfs, and ENOSPC on xfs.
//
// None of these limits stops a malicious user by itself, and Escape of a quota says
// why. On ext4 and xfs the owner of a file or directory may put it under another project
// (outside of user namespaces). On btrfs any user may make a subvolume in a directory of their
// own. Simple quotas count that subvolume, too, unless the user asks the kernel for no group; then
// it is counted from the next Gather on.
//
// No program is run and no library of these file systems is needed. All calls may be made
// at the same time; a change is one call into the kernel, so a crash leaves it done or not
// done. The tests run on loop devices, on whatever kernel there is; those of project quotas
// need one that has them, and are run in a guest (test/vm).
package localfs
