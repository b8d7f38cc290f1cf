package task

import pb "datamove.dev/api/datamove/v1"

// Concerns reports whether what one task brings counts for another one that reads: their owner is the same, or root brings it.
func Concerns(writer, reader *pb.Task) bool {
	return SameOwner(writer, reader) || writer.GetOwner().GetUid() == 0
}

// SameOwner reports whether two tasks are of one account.
func SameOwner(a, b *pb.Task) bool {
	return a.GetOwner().GetName() == b.GetOwner().GetName() && a.GetOwner().GetUid() == b.GetOwner().GetUid()
}
