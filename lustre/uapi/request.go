package uapi

// The requests (ioctls) for layouts, directory stripes, capacity, projects and quotas:
// lustre_user.h, lustre_ioctl.h and linux/fs.h; equal in 2.15 and 2.17.
const (
	IocSetStripe        = 0x4008669a // LL_IOC_LOV_SETSTRIPE
	IocSetDirStripe     = 0xc03066f0 // LL_IOC_LMV_SETSTRIPE
	IocGetDirStripe     = 0xc03066f1 // LL_IOC_LMV_GETSTRIPE
	IocSetDefaultStripe = 0xc03066f6 // LL_IOC_LMV_SET_DEFAULT_STRIPE
	IocTargetCount      = 0x800866a8 // LL_IOC_GETOBDCOUNT: in 0 for OSTs, 1 for MDTs, of which it counts too many
	IocTargetStatfs     = 0xc00866a4 // IOC_OBD_STATFS
	IocQuotactl         = 0xc0b066a2 // OBD_IOC_QUOTACTL
	IocNamedProject     = 0x411066fd // LL_IOC_PROJECT
	IocGetFSXattr       = 0x801c581f // FS_IOC_FSGETXATTR
	IocSetFSXattr       = 0x401c5820 // FS_IOC_FSSETXATTR
	IocLOVName          = 0x8080667f // OBD_IOC_GETDTNAME: 128 bytes
)

// DelayCreate are the flags of open that make a file without objects, so that a layout can
// be set (O_LOV_DELAY_CREATE of 2.17: O_NOCTTY and FASYNC; 2.15 has one bit more, and takes
// these). A caller that opens with them sets a layout: without one, writes fail with EBADF. They
// are also how a released file is opened for questions.
const DelayCreate = 0x2100

// SuperMagic is f_type of statfs (LL_SUPER_MAGIC).
const SuperMagic = 0x0BD00BD0
