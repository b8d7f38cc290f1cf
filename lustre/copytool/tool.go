package copytool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/lustre/uapi"
)

// Tool is a copytool. Run may be called again when it has returned.
type Tool struct {
	o        Options
	now      atomic.Pointer[serving] // nil while nothing is served
	patience patience
}

// New makes a copytool.
func New(o Options) *Tool { return &Tool{o: o.withDefaults()} }

// Counts is how many actions wait in memory, and how many are in work.
func (t *Tool) Counts() (waiting, working int) {
	if s := t.now.Load(); s != nil {
		return s.queue.counts()
	}
	return 0, 0
}

// serving is what came by the registrations of one Run.
type serving struct {
	*Tool
	mount *mount
	queue *queue
	heard atomic.Int64 // messages
	log   *slog.Logger

	taken   sync.Once // up, what killed processes had in work
	unnoted sync.Once // has been told
}

// Run serves until ctx ends, and returns nil then; an error before that says that nothing is
// served any more. All that was handed out has come to an end when it returns.
func (t *Tool) Run(ctx context.Context) error {
	m, err := openMount(&t.o)
	if err != nil {
		return err
	}
	defer m.root.Close()
	reg, err := m.register(&t.o)
	if err != nil {
		return err
	}
	s := &serving{Tool: t, mount: m, queue: newQueue(t.o.Jobs, t.o.Waiting), log: t.o.Logger}
	t.now.Store(s)
	defer t.now.Store(nil)
	s.log.InfoContext(ctx, "serves HSM", "mount", t.o.Mount, "archives", fmt.Sprint(t.o.Archives), "jobs", t.o.Jobs)
	return s.serve(ctx, reg)
}

func (s *serving) serve(ctx context.Context, reg *registration) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var workers sync.WaitGroup
	for range s.o.Jobs {
		workers.Go(func() { s.worker(work) })
	}
	quiet := s.reminds(work)
	err := s.listen(ctx, work, reg)
	for errors.Is(err, errIdle) {
		if reg, err = s.mount.register(&s.o); err == nil {
			err = s.listen(ctx, work, reg)
		}
	}
	left := s.queue.close()
	quiet()
	for _, a := range left {
		s.handBack(a)
	}
	grace := time.AfterFunc(s.o.Grace, func() { stop(errStopping) })
	defer grace.Stop()
	workers.Wait()
	return err
}

// listen takes what comes by one registration until that ends. What came is in the queue
// still when the registration is only made anew.
func (s *serving) listen(ctx, work context.Context, reg *registration) error {
	defer reg.pipe.Close()
	over := make(chan error, 1)
	go func() {
		s.taken.Do(func() { s.takeUp(work) })
		over <- s.read(work, reg)
	}()
	err := s.until(ctx, over)
	var left []*action
	if !errors.Is(err, errIdle) {
		// The queue lets go of the reader first: a kernel that writes into a full pipe takes
		// no registration back before that is read.
		left = s.queue.close()
	}
	if back := reg.takeBack(); back != nil {
		s.log.WarnContext(ctx, "the kernel did not take the registration back", "err", back)
	}
	for _, a := range left {
		s.handBack(a)
	}
	if last := <-over; err == nil && ctx.Err() == nil {
		err = last
	}
	return err
}

// errIdle ends a registration that was silent for long: an MDT with a restarted coordinator
// has forgotten it, and does not say so.
var errIdle = errors.New("the registration is made anew")

// until waits for the end: of ctx, of what can be read, or of the time in which something is
// heard.
func (s *serving) until(ctx context.Context, over chan error) error {
	idle := time.NewTicker(s.o.Renew)
	defer idle.Stop()
	for heard := s.heard.Load(); ; heard = s.heard.Load() {
		select {
		case err := <-over:
			over <- err
			return err
		case <-ctx.Done():
			return nil
		case <-idle.C:
		}
		if waiting, working := s.queue.counts(); waiting+working == 0 && s.heard.Load() == heard {
			return errIdle
		}
	}
}

var errEnded = errors.New("the kernel has ended the registration")

// read takes messages until there are none. Its error says why; it is nil after the
// registration was taken back.
func (s *serving) read(ctx context.Context, reg *registration) error {
	var buffer []byte
	for {
		m, err := reg.next(&buffer)
		s.heard.Add(1)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return errEnded
		case err != nil:
			return fmt.Errorf("what the kernel writes is no message: %w", err)
		case m.Type == uapi.Shutdown:
			return errEnded
		case m.Type != uapi.Actions:
			s.log.WarnContext(ctx, "a message of a kind that is not known", "type", m.Type, "bytes", m.Length)
			continue
		}
		s.take(ctx, m.body)
	}
}

// take sorts the actions of a list.
func (s *serving) take(ctx context.Context, body []byte) {
	list, err := uapi.DecodeActionList(body)
	if err != nil {
		s.log.ErrorContext(ctx, "a list of actions can not be read: what is missing comes again after the timeout of the MDT", "read", len(list.Items), "err", err)
	}
	for _, item := range list.Items {
		a := newAction(&list, item)
		switch {
		case item.Action == uapi.CopyCancel:
			s.cancel(ctx, identityOf(&item))
		case len(s.o.Archives) > 0 && !slices.Contains(s.o.Archives, list.ArchiveID):
			s.ended(ctx, a, errOther)
		default:
			s.noteDown(ctx, &list, a)
			s.enqueue(ctx, a)
		}
	}
}

func (s *serving) enqueue(ctx context.Context, a *action) {
	switch added, known := s.queue.add(a); {
	case known:
		s.log.WarnContext(ctx, "an action that is in work was handed out again", "cookie", a.item.Cookie, "fid", a.item.FID)
		s.forget(a.note)
	case !added:
		s.handBack(a)
	}
}

// cancel ends an action. One that is not known has ended.
func (s *serving) cancel(ctx context.Context, id identity) {
	waited, found := s.queue.cancel(id)
	s.log.InfoContext(ctx, "asked to cancel", "cookie", id.cookie, "fid", id.file, "found", found)
	if waited != nil {
		s.ended(ctx, waited, errCancelled)
	}
}

// handBack lets the MDT give an action to another copytool.
func (s *serving) handBack(a *action) { s.ended(context.Background(), a, errStopping) }
