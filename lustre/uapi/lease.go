package uapi

// Locks that an application can ask for.
const (
	IocGroupLock   = 0x4008669e // LL_IOC_GROUP_LOCK: the argument is the number of the group
	IocGroupUnlock = 0x4008669f // LL_IOC_GROUP_UNLOCK
	IocSetLease    = 0xc00866f3 // LL_IOC_SET_LEASE_OLD: the argument is one of Lease*
	IocGetLease    = 0x000066f4 // LL_IOC_GET_LEASE: returns which one is held, 0 when it is broken
)

// Leases (enum ll_lease_mode). A lease is given up by asking for LeaseNone, which returns
// the one that was held.
const (
	LeaseRead  = 1
	LeaseWrite = 2
	LeaseNone  = 4
)
