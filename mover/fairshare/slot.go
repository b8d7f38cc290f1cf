package fairshare

import "time"

// Slots are for turns that use this node. One that takes very long for its price waits for
// something else: a far endpoint, a limit of its own. While it does, its room is for
// others, or a task that is slow by itself would hold all slots, because it always has
// had the least, and all others would be as slow.
const (
	slowFactor = 32                    // times that a turn may take longer than turns of its price usually do
	slowLeast  = 50 * time.Millisecond // that it may take anyway
	paceWeight = 1.0 / 64              // of one turn in what is usual
)

// Width is how many turns of a flow are good at one time.
type Width struct {
	Most int // run at once, at most, from now on; 0 is any number. Others do not wait for those on top of it
	Fill int // would use all of this node by themselves: one takes so large a part of all slots; 0 takes one slot
}

const slotParts = 1 << 20 // of a slot that are counted

// begin gives a turn its room.
func (s *Scheduler) begin(t *turn) {
	t.began, t.room = time.Now(), slotParts
	if fill := int64(t.fill); fill > 0 {
		t.room = (int64(s.slots)*slotParts + fill - 1) / fill
	}
	s.taken += t.room
	t.slow = time.AfterFunc(s.waitFor(t.price), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.vacate(t)
		s.admit()
	})
}

// vacate takes the room of a turn away, if it has any.
func (s *Scheduler) vacate(t *turn) {
	if t.slow != nil {
		t.slow.Stop()
	}
	s.taken -= t.room
	t.room = 0
}

// longest is how long a turn may have its room at most, and has it while nothing is known. So long an account
// with slow turns only keeps others waiting.
const longest = 2 * time.Second

// patienceFor is how long a turn of that price may have its room.
func (s *Scheduler) waitFor(price int64) time.Duration {
	if s.pace == 0 {
		return longest
	}
	return min(slowLeast+time.Duration(slowFactor*float64(price)/s.pace*float64(time.Second)), longest)
}

// learn takes a turn that has ended into account. The mean is of paces, so that the fast
// turns say what this node can do.
func (s *Scheduler) learn(price int64, took time.Duration) {
	pace := float64(price) / max(took, time.Microsecond).Seconds()
	if s.pace == 0 {
		s.pace = pace
	}
	s.pace += paceWeight * (pace - s.pace)
}
