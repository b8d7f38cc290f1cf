package auditlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// groupBytes bounds what is written at once, before it is escaped.
const groupBytes = 256 << 10

// waiter is a record on its way, and the channel of the caller that waits for it.
type waiter struct {
	entry Entry
	bytes int
	done  chan error // has room for the one answer
}

// Append records a decision. When it returns nil the record is in the log, and on
// the disk unless Options.NoSync. On an error the caller denies: nothing of the
// record is in the log, unless the error says that it could not be taken back. It
// gives up when ctx ends, but not while the record is just being written.
//
// There is no goroutine behind it: the caller that has the turn writes
// what all of them have queued meanwhile.
func (l *Log) Append(ctx context.Context, r Record) error {
	if ctx.Err() != nil {
		return failure("append to", l.dir, context.Cause(ctx))
	}
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		return failure("append to", l.dir, context.Cause(ctx))
	}
	defer func() { <-l.places }()
	return failure("append to", l.dir, l.wait(ctx, l.enqueue(decided(r, l.o.KeepLocations))))
}

// enqueue gives a record its time and its place behind those before it.
func (l *Log) enqueue(e Entry) *waiter {
	w := &waiter{entry: e, bytes: weight(&e), done: make(chan error, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.entry.Time = l.o.now()
	l.queue = append(l.queue, w)
	return w
}

// weight is what the texts of e have, before they are escaped.
func weight(e *Entry) int {
	bytes := len(e.Actor) + len(e.Agent) + len(e.By) + len(e.Peer) + len(e.Method) + len(e.Object) + len(e.Code) + len(e.Reason)
	for _, location := range e.Locations {
		bytes += len(location) + perLocation
	}
	return bytes
}

// wait returns what became of w, and writes groups while it has the turn.
func (l *Log) wait(ctx context.Context, w *waiter) error {
	for {
		select {
		case err := <-w.done:
			return err
		case l.turn <- struct{}{}:
			l.commit()
			<-l.turn
		case <-ctx.Done():
			if l.withdraw(w) {
				return context.Cause(ctx)
			}
			return <-w.done
		}
	}
}

// withdraw takes w out of the queue, if it is still there.
func (l *Log) withdraw(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, w)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	return true
}

// commit writes the next group and answers the callers that wait for it.
func (l *Log) commit() {
	group := l.next()
	if len(group) == 0 {
		return
	}
	err := l.write(group)
	for _, w := range group {
		w.done <- err
	}
}

// next takes a group off the queue.
func (l *Log) next() []*waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.queue) && (n == 0 || size+l.queue[n].bytes <= groupBytes) {
		size += l.queue[n].bytes
		n++
	}
	group := slices.Clone(l.queue[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	return group
}

// write puts a group at the end of the log, or nothing of it.
func (l *Log) write(group []*waiter) error {
	if l.failed != nil {
		return l.failed
	}
	if l.size >= l.o.RotateBytes {
		if err := l.begin(); err != nil {
			return err
		}
	}
	c := l.chain
	l.text = l.text[:0]
	for _, w := range group {
		c.number(&w.entry)
		l.text = appendEntry(l.text, &w.entry)
		c.add(&w.entry)
	}
	if err := l.put(l.text); err != nil {
		return err
	}
	l.moveTo(c)
	return nil
}

// moveTo makes c the state of the log: its records are there.
func (l *Log) moveTo(c chain) {
	l.chain = c
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head = c.head
}

// put writes lines at the end of the file, or takes them back.
func (l *Log) put(lines []byte) error {
	if l.failed = l.touched(); l.failed != nil {
		return l.failed
	}
	_, err := l.file.WriteAt(lines, l.size)
	if err == nil && !l.o.NoSync {
		err = l.o.datasync(l.file)
	}
	if err == nil {
		l.size += int64(len(lines))
		return nil
	}
	if again := l.file.Truncate(l.size); again != nil {
		l.failed = errors.Join(err, fmt.Errorf("half-written records can not be taken back: %w", again))
		return l.failed
	}
	return err
}

// touched looks whether another process has written to the file, or removed it.
func (l *Log) touched() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(l.file.Fd()), &st); err != nil {
		return err
	}
	if st.Size != l.size || st.Nlink == 0 {
		return fmt.Errorf("%w: %s has %d bytes and %d names, and should have %d and 1", mover.ErrChanged, fileName(l.first), st.Size, st.Nlink, l.size)
	}
	return nil
}
