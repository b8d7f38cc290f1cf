package dataset

import "datamove.dev/mover"

// Room is what a tier has for stagings, on one node where each has its own.
type Room struct {
	TotalBytes, FreeBytes int64
	KeepPercent           int   // of all bytes: nothing is staged into them
	ComingBytes           int64 // of stagings that go on, and have not written them yet
	LeavingBytes          int64 // of replicas that are being removed
	Stale                 bool  // what has come or gone last may not be counted yet
}

// Kept are the bytes that stay free.
func (r Room) Kept() int64 { return mover.Kept(r.TotalBytes, r.KeepPercent) }

// Most is the size of the largest dataset that can ever come.
func (r Room) Most() int64 { return r.TotalBytes - r.Kept() }

// Left is how many bytes more may come now.
func (r Room) Left() int64 { return max(0, r.FreeBytes-r.Kept()-r.ComingBytes) }

// Fit says what is to be done so that something comes.
type Fit string

// What can be done.
const (
	Fits     Fit = "fits"      // it may come now
	Waits    Fit = "waits"     // for what is being removed, or to be told how much there is
	Evicts   Fit = "evicts"    // others have to go
	Full     Fit = "full"      // others may not go, now
	TooLarge Fit = "too large" // it never fits
)

// Fit judges so many bytes, where so many more could be evicted.
func (r Room) Fit(bytes, evictable int64) Fit {
	left := r.Left()
	switch {
	case bytes > r.Most():
		return TooLarge
	case bytes <= left && (!r.Stale || bytes <= left/2):
		return Fits
	case r.Stale, bytes <= left+r.LeavingBytes:
		return Waits
	case bytes <= left+r.LeavingBytes+evictable:
		return Evicts
	}
	return Full
}
