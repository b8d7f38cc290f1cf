// Package task is the life of a durable request: its states, which may follow which,
// its classes, and the ids of tasks.
//
// Everything here is pure but NewID, which remembers the last id. Moving a task from state to state, and keeping it, is for
// coordinator and coordinator/state. TestLifeCycle draws the table.
package task

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// The states, by short names.
const (
	Queued    = pb.TaskState_TASK_STATE_QUEUED
	Running   = pb.TaskState_TASK_STATE_RUNNING
	Paused    = pb.TaskState_TASK_STATE_PAUSED
	Done      = pb.TaskState_TASK_STATE_DONE
	Failed    = pb.TaskState_TASK_STATE_FAILED
	Cancelled = pb.TaskState_TASK_STATE_CANCELLED
)

// next says which state may follow which. A running task goes back into the queue when
// its lead is lost or puts it back; it is paused and cancelled when its lead has let go.
var next = map[pb.TaskState][]pb.TaskState{
	Queued:  {Running, Paused, Failed, Cancelled},
	Running: {Queued, Paused, Done, Failed, Cancelled},
	Paused:  {Queued, Failed, Cancelled},
}

// steps are what brings a task into a state, in a word for errors.
var steps = map[pb.TaskState]string{Queued: "queue", Running: "begin", Paused: "pause", Done: "finish", Failed: "fail", Cancelled: "cancel"}

// May reports whether a task may go from one state to another.
func May(from, to pb.TaskState) bool { return slices.Contains(next[from], to) }

// Ended reports whether a state is a last one.
func Ended(s pb.TaskState) bool { return s == Done || s == Failed || s == Cancelled }

// Move puts a task into another state.
func Move(t *pb.Task, to pb.TaskState) error {
	if !May(t.GetState(), to) {
		return &mover.Error{Op: steps[to], Location: "task " + t.GetId(), Err: fmt.Errorf("%w: it is %s", mover.ErrConflict, Word(t.GetState()))}
	}
	t.State = to
	t.Revision++
	return nil
}

// Word is a state in one word: "queued".
func Word(s pb.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
}

// letters are those of ids, in the order of bytes: Crockford's base 32 in lower case.
const letters = "0123456789abcdefghjkmnpqrstvwxyz"

// IDTime is how many letters of an id are its time.
const IDTime = 10

// NewID returns an id that is greater than those of earlier milliseconds, and than those that
// this process has made in the same one: ten letters of time, ten of chance.
func NewID(now time.Time) string {
	b := make([]byte, 20)
	ms := uint64(now.UnixMilli())
	write(b[:IDTime], ms)
	write(b[IDTime:], made.next(ms))
	return string(b)
}

// write fills b with the last digits of a number.
func write(b []byte, n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = letters[n%32]
		n /= 32
	}
}

// made is what the last id of this process was made of.
var made chance

// chance is the part of ids that is drawn.
type chance struct {
	mu   sync.Mutex // guards all below
	ms   uint64
	last uint64
}

// next draws 49 of 50 bits; in a millisecond that has one already it goes on from that, by up to 2¹⁶.
func (c *chance) next(ms uint64) uint64 {
	var b [8]byte
	rand.Read(b[:])
	drawn := binary.BigEndian.Uint64(b[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ms == ms {
		c.last += 1 + drawn%(1<<16)
	} else {
		c.ms, c.last = ms, drawn%(1<<49)
	}
	return c.last
}

// ValidID reports whether a text can be the id of a task.
func ValidID(id string) bool {
	return len(id) == 20 && strings.Trim(id, letters) == ""
}
