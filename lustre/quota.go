package lustre

import (
	"fmt"
	"time"
)

// Project is what files are accounted under.
type Project struct {
	ID      uint32 // Lustre, ext4, xfs: the project ID; btrfs: the subvolume's
	Name    string // GPFS: the fileset; CephFS: the directory
	Inherit bool   // new entries of the directory get the same
}

// Limits are what a project may hold. 0 is no limit.
type Limits struct {
	SoftBytes, HardBytes int64
	SoftFiles, HardFiles int64
}

// Validate reports what no file system can be told.
func (l Limits) Validate() error {
	for _, p := range []struct {
		what       string
		soft, hard int64
	}{{"bytes", l.SoftBytes, l.HardBytes}, {"files", l.SoftFiles, l.HardFiles}} {
		if p.soft < 0 || p.hard < 0 {
			return fmt.Errorf("a limit of less than 0 %s: 0 is no limit", p.what)
		}
		if p.hard > 0 && p.soft > p.hard {
			return fmt.Errorf("a soft limit of %d %s is above the hard one of %d", p.soft, p.what, p.hard)
		}
	}
	return nil
}

// Quota is the limits of a project and what it holds.
type Quota struct {
	Project Project
	Limits
	UsedBytes, UsedFiles int64
	// BytesUntil and FilesUntil are when a passed soft limit becomes a hard one; zero
	// while none is passed.
	BytesUntil, FilesUntil time.Time
	// Kinds says what this file system counts: a limit of another kind can not be set.
	CountsFiles, HasSoft bool
	// Enforced says that the file system refuses what is over a hard limit, as far as that
	// can be known; RootToo that it refuses root as well. Where root is not refused, a mover
	// that copies as root has to look at LeftBytes by itself.
	Enforced, RootToo bool
	// Doubt says why what it is told to hold may be wrong (it is being counted anew, or
	// counts only what came after quotas were switched on); "" where it is right.
	Doubt string
	// Escape says how a malicious user with write permission in the project gets around its
	// hard limits; "" where no way is known. Where RootToo is false, root always does.
	Escape string
	// Targets is what each OST holds and was granted, where that is told, and what the pools
	// of OSTs hold in which the project has limits of their own: it can be over on one of
	// them and under as a whole. What is left there is in no LeftBytes: it does not hold for
	// what is written elsewhere.
	Targets []TargetQuota
	// Around are the quotas of what the project is a part of, the narrowest first: they
	// hold for it as well (CephFS: of the directories above).
	Around []Quota
}

// Limit is one of the limits of a quota.
type Limit string

// The limits.
const (
	NoLimit        Limit = ""
	HardBytesLimit Limit = "hard bytes"
	HardFilesLimit Limit = "hard files"
	SoftBytesLimit Limit = "soft bytes" // passed, and its time of grace is over
	SoftFilesLimit Limit = "soft files"
)

// Exhausted is the limit by which the file system refuses everything more, and its quota: the one of the project, or one around it. NoLimit is that there is room, or that no limit is enforced.
func (q *Quota) Exhausted(now time.Time) (of *Quota, by Limit) {
	past := func(until time.Time) bool { return !until.IsZero() && until.Before(now) }
	switch {
	case !q.Enforced:
	case q.HardBytes > 0 && q.UsedBytes >= q.HardBytes:
		return q, HardBytesLimit
	case q.CountsFiles && q.HardFiles > 0 && q.UsedFiles >= q.HardFiles:
		return q, HardFilesLimit
	case past(q.BytesUntil):
		return q, SoftBytesLimit
	case past(q.FilesUntil):
		return q, SoftFilesLimit
	}
	for i := range q.Around {
		if of, by := q.Around[i].Exhausted(now); by != NoLimit {
			return of, by
		}
	}
	return nil, NoLimit
}

// TargetQuota is one target's share.
type TargetQuota struct {
	Target       string
	Pool         bool // it is a pool of OSTs
	UsedBytes    int64
	GrantedBytes int64 // of a pool its limit
}

// LeftBytes is how many bytes can be written before the nearest hard limit; ok is false
// without one.
func (q *Quota) LeftBytes() (left int64, ok bool) {
	left, ok = max(0, q.HardBytes-q.UsedBytes), q.HardBytes > 0
	for i := range q.Around {
		left, ok = nearer(left, ok, &q.Around[i], (*Quota).LeftBytes)
	}
	return left, ok
}

// LeftFiles is LeftBytes for files.
func (q *Quota) LeftFiles() (left int64, ok bool) {
	left, ok = max(0, q.HardFiles-q.UsedFiles), q.HardFiles > 0
	for i := range q.Around {
		left, ok = nearer(left, ok, &q.Around[i], (*Quota).LeftFiles)
	}
	return left, ok
}

// nearer is the smaller of what is left, and of what an outer quota leaves.
func nearer(left int64, ok bool, outer *Quota, of func(*Quota) (int64, bool)) (int64, bool) {
	theirs, limited := of(outer)
	if limited && (!ok || theirs < left) {
		return theirs, true
	}
	return left, ok
}
