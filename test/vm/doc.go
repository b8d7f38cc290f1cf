// Package vm boots Debian's stock kernel in an emulated machine and runs programs
// in it: test binaries that need what the kernel of a build machine may lack (project
// quotas of ext4 and xfs, an NFS server and client, disks that fail or keep a log of
// their writes by the device mapper), and copies whose machine loses its power.
//
// A Guest says what is in the machine: kernel modules by name, with what they depend
// on; programs of the host with their libraries; files; disks; and the commands to
// run. Run returns a Result with the output and the exit code of each. Start returns
// the running Machine, which can be watched, and killed as a power cut would. The
// guest's side is test/vm/init, which is process 1 of a file system in memory that
// is made for each boot; nothing of Debian is started in it.
//
// The processor is emulated by default, because not every machine can do better:
// DATAMOVE_VM_ACCEL=kvm names another accelerator of qemu. A guest is up after about
// twenty seconds. It has no network beside its own loopback unless it asks for one, sees
// nothing of the host but the files that it was given, and ends with its context.
//
// Replay makes tests of what a test binary said in a guest, so that test/runner counts
// them as all others. test/vm/guests is what make e2e-vm runs.
package vm
