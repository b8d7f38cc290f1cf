// Package sandbox runs a program with the ids of an account, and confines it to the
// roots of its work.
//
// # Words
//
// The service calls [Start] with an [Account], which is a uid, a gid and groups; the
// program calls [Enter] as the first thing of its main. They are connected by a
// socket. A [Confinement] is what the program may reach in file systems. [Enforced]
// is how much of that the kernel saw to.
//
// # Promises
//
// When Start returns, the process has the uid, the gid and the groups of the account
// and no others, has no capabilities unless it is root, can not gain privileges by
// running a program (PR_SET_NO_NEW_PRIVS), leaves no core dump, and is confined as
// Enforced says, in all its threads. Nothing of the service gets into it: neither the
// environment, nor open files, nor the terminal.
//
// It ends when the service ends, however that ends: the kernel closes the socket, and
// a thread of the process waits for just that. (PR_SET_PDEATHSIG is bound to the
// thread that forked, which in Go may end at any time.) A process that was stopped
// with SIGSTOP ends when it goes on. It is left to the kernel's out-of-memory killer
// before the service is.
//
// A service that is root acts as anybody. One that is not acts as its own user, with
// its own groups, and refuses everybody else with mover.ErrPermission.
//
// # What an account may do
//
// The kernel's rules for it, and nothing is done on its behalf. Foreign owners,
// device nodes, setuid bits of foreign files and trusted.* attributes can be restored
// only when the account is root: it keeps its capabilities then. For every other one
// these calls fail as they fail for that person anywhere else.
//
// # What Landlock does, and does not
//
// It holds what opens, makes, removes, renames, links and truncates files, by inode
// and for whatever path leads there: a symbolic link, "..", /proc/self/root, an open
// directory. Programs can not be run. It does not hold what only looks or changes
// attributes: stat, readlink, chmod, chown, utimensat, setxattr, statfs, flock and
// O_PATH go where the account itself may go. Neither does it hold the network. Root
// could load a module into the kernel, or wait until the service runs something that
// it wrote: for the account root it is a guard against mistakes.
//
// It needs Linux 5.19 for renames between directories; before, and where it is
// switched off, Enforced.Landlock is 0 and the kernel's permissions are all there is.
// Device nodes get no ioctl but those of Confinement.Devices; FICLONE and the other ioctls of regular files and
// directories are not held by Landlock, nor are openat2, statfs, name_to_handle_at and
// extended attributes. TestConfined is the table of all this.
//
// # Left to others
//
// The caller decides which account is allowed: Start does not check that. Where the program is
// this very one (Options.Path is ""), a service that is root starts it as root, and Enter makes
// it the account's when no other process can look into it any more. Another program is started as the
// account: between exec and Enter the account's other processes can trace it, but where they can
// run and not read it (mode 0711).
//
// TestActsAsTheUser, TestNothingLeaks and TestParentIsKilled show the other promises.
package sandbox
