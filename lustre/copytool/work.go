package copytool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre/uapi"
)

func (s *serving) worker(ctx context.Context) {
	for {
		a, ok := s.queue.next(ctx)
		if !ok {
			return
		}
		s.begun(a)
		err := s.do(a)
		s.ended(a.ctx, a, err)
		s.queue.done(a)
	}
}

// do does an action, but for the end of one that failed.
func (s *serving) do(a *action) error {
	switch a.item.Action {
	case uapi.CopyArchive:
		return s.archive(a)
	case uapi.CopyRestore:
		return s.restore(a)
	case uapi.CopyRemove:
		return s.remove(a)
	}
	return errUnknown
}

// accepted marks an error of the last word itself: the MDT has had it, or can not be reached.
type accepted struct{ error }

func (e *accepted) Unwrap() error { return e.error }

// finish tells the MDT that an action is done.
func (s *serving) finish(a *action, size int64) error {
	a.copied.Item.Extent = uapi.Extent{Off: 0, Length: uint64(size)}
	a.copied.Flags, a.copied.Errno = uapi.CopyCompleted, 0
	if err := s.last(a); err != nil {
		return &accepted{err}
	}
	return nil
}

// last tells the MDT the end of an action, after which nothing is told of it. Its note stays when
// the MDT may not have heard it: the next process asks. EBUSY is of a file that was written in
// the last moment, of which the kernel has told the MDT.
func (s *serving) last(a *action) error {
	a.telling.Lock()
	defer a.telling.Unlock()
	s.queue.ending(a)
	err := s.mount.end(&a.copied)
	if err == nil || unwanted(err) || errors.Is(err, unix.EBUSY) {
		s.forget(a.note)
	}
	return err
}

// unwanted reports whether an MDT has answered that an action is no longer ours.
func unwanted(err error) bool { return errors.Is(err, errLost) || errors.Is(err, errCancelled) }

// ended reports how an action has ended: to the log, to Options.Told, and a failure to the MDT.
func (s *serving) ended(ctx context.Context, a *action, err error) {
	e := Ended{Action: a.item.Action, Bytes: a.moved.Load(), Took: time.Since(a.since), Err: err}
	log := s.log.With("action", a.item.Action, "fid", a.item.FID, "cookie", a.item.Cookie, "bytes", e.Bytes, "took", e.Took)
	var last *accepted
	switch {
	case err == nil:
		log.DebugContext(ctx, "done")
	case errors.As(err, &last):
		log.WarnContext(ctx, "done, and not taken", "err", err)
	default:
		s.fail(a, failure(ctx, err))
		log.WarnContext(ctx, "failed", "errno", unix.Errno(a.copied.Errno), "retry", a.copied.Flags&uapi.CopyRetry != 0, "err", err)
	}
	s.o.Told(e)
}

// fail tells the MDT of a failure.
func (s *serving) fail(a *action, f *Failure) {
	if f.Errno == unix.EBUSY && f.Retry {
		f.Retry = s.patience.left(identityOf(&a.item))
	}
	a.copied.Errno, a.copied.Flags = uint16(told(f.Errno)), uapi.CopyCompleted
	if f.Retry {
		a.copied.Flags |= uapi.CopyRetry
	}
	if err := s.last(a); err != nil && !unwanted(err) {
		s.log.Warn("the MDT did not hear of a failure: it waits for its timeout", "cookie", a.item.Cookie, "err", err)
	}
}

func (s *serving) archive(a *action) error {
	f, st, err := s.mount.open(a.item.Data, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := s.mount.begin(&a.copied); err != nil {
		return err
	}
	if err := unix.Fstat(int(f.Fd()), &st); err != nil { // what was written before it began is part of its version
		return err
	}
	a.size = st.Size
	mine := func(ctx context.Context) error {
		if err := s.report(a); err != nil {
			return err
		}
		now, err := s.mount.version(f)
		if err == nil && now != a.copied.DataVersion {
			err = errChanged
		}
		return err
	}
	quiet := s.watched(a)
	err = s.o.Archive.Put(a.ctx, Copy{
		Key: Key(a.system, a.item.FID), File: f, Size: st.Size, Moved: &a.moved, Mine: mine,
		Info: Info{st.Uid, st.Gid, st.Mode & 0o7777, st.Mtim, st.Atim, s.mount.path(a.item.FID)},
	})
	quiet()
	if err != nil {
		return err
	}
	a.copied.Item.FID = a.copied.Item.Data
	return s.finish(a, st.Size)
}

func (s *serving) restore(a *action) error {
	of, st, err := s.mount.open(a.item.FID, delayed)
	if err != nil {
		return err
	}
	defer of.Close()
	f, self, err := s.mount.volatile(of, a.item.FID, &st)
	if err != nil {
		return err
	}
	defer f.Close()
	a.copied.Item.Data, a.size = self, st.Size
	if err := s.mount.begin(&a.copied); err != nil {
		return err
	}
	quiet := s.watched(a)
	err = s.o.Archive.Get(a.ctx, Copy{Key: Key(a.system, a.item.FID), File: f, Size: st.Size, Moved: &a.moved})
	quiet()
	if err != nil {
		return err
	}
	if err := s.mount.likeTimes(f, &st); err != nil {
		return fmt.Errorf("mode and times: %w", err)
	}
	if err := context.Cause(a.ctx); err != nil { // its content is not wanted any more
		return err
	}
	a.copied.Item.FID = self
	return s.finish(a, st.Size)
}

// remove asks first whether it is still to be done: there is no beginning that the MDT would
// refuse, and the copy may be another one since it was asked for.
func (s *serving) remove(a *action) error {
	if err := s.report(a); err != nil {
		return err
	}
	if err := s.o.Archive.Delete(a.ctx, Key(a.system, a.item.FID)); err != nil {
		return err
	}
	return s.finish(a, 0)
}

// watched tells the MDT from time to time how far an action is, until quiet is called, which
// has to be before its end is told. The MDT's answer may be that it is not wanted any more.
func (s *serving) watched(a *action) (quiet func()) {
	return every(a.ctx, s.o.Progress, func() (enough bool) {
		err := s.report(a)
		if enough = unwanted(err); enough {
			a.stop(err)
		}
		return enough
	})
}

// remindEvery is how many times Progress are between two words about an action that waits: with
// five seconds, and the 16384 that wait at most, 55 words in a second.
const remindEvery = 60

// reminds tells the MDTs from time to time of what waits, until quiet is called: they give up
// actions of which they hear nothing (hsm.active_request_timeout, an hour). An action that an MDT
// has given up or cancelled waits no longer.
func (s *serving) reminds(ctx context.Context) (quiet func()) {
	return every(ctx, remindEvery*s.o.Progress, func() (enough bool) {
		for _, a := range s.queue.waiting() {
			err := s.remind(a)
			if !unwanted(err) {
				continue
			}
			if waited, _ := s.queue.cancel(identityOf(&a.item)); waited != nil {
				s.ended(ctx, waited, err)
			}
		}
		return ctx.Err() != nil
	})
}

// remind tells of an action that it waits, if it does.
func (s *serving) remind(a *action) error {
	a.telling.Lock()
	defer a.telling.Unlock()
	if !s.queue.waits(a) {
		return nil
	}
	return s.mount.progress(&uapi.Progress{FID: a.item.FID, Cookie: a.item.Cookie})
}

// every calls do from time to time until it says that it is enough, or ctx or the caller does.
func every(ctx context.Context, d time.Duration, do func() (enough bool)) (quiet func()) {
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if do() {
				return
			}
		}
	}()
	return func() { close(quit); <-over }
}

// report tells how far an action is. Each range is told once.
func (s *serving) report(a *action) error {
	a.telling.Lock()
	defer a.telling.Unlock()
	now := max(min(a.moved.Load(), a.size), a.told) // what was sent again is not told
	p := uapi.Progress{FID: a.item.FID, Cookie: a.item.Cookie, Extent: uapi.Extent{Off: uint64(a.told), Length: uint64(now - a.told)}}
	if err := s.mount.progress(&p); err != nil {
		return err
	}
	a.told = now
	return nil
}
