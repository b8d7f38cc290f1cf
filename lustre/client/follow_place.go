package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"datamove.dev/lustre"
)

// resume proves that the place at which a reader stands is where it left, and that nothing
// behind it is gone.
//
// Clearing less than was cleared before is refused: so the record before the place is
// cleared first. When that is refused, and the place itself is not, the reader stands
// exactly there. It is refused by EINVAL up to 2.17.56, and since then (LU-20351) by the ENOENT that also says
// that there is no such reader: that the clearing of the place itself tells. When it is done, the last clearing did not come through, or this is
// another log, of which the reader has cleared less; then the record at the place has to
// be there, and to be the one that was read.
func (f *following) resume(ctx context.Context) error {
	if f.after > 1 && f.lowClear() != LowClearLoses {
		err := f.Changes.Clear(ctx, f.Feed, f.Reader, f.after-1)
		switch {
		case err == nil:
			if err := f.sameRecord(ctx); err != nil {
				return err
			}
		case !errors.Is(err, lustre.ErrGap): // ErrNoReader is one
			return err
		}
	}
	return f.clear(ctx)
}

// lowClear is what the server makes of the clearing of less than was cleared before.
func (f *following) lowClear() LowClear {
	if s, ok := f.Changes.(interface{ LowClear(lustre.Feed) LowClear }); ok {
		return s.LowClear(f.Feed)
	}
	return LowClearTells
}

// sameRecord looks at the record at the place.
func (f *following) sameRecord(ctx context.Context) error {
	for c, err := range f.Changes.Read(ctx, f.Feed, f.after-1) {
		if err != nil {
			return err
		}
		if c.Index != f.after || !f.AfterTime.IsZero() && !c.Time.Equal(f.AfterTime) {
			return fmt.Errorf("changes of %s: the record %d of %v is not the one of %v: the log was made anew: %w",
				f.Feed.Name, c.Index, c.Time, f.AfterTime, lustre.ErrGap)
		}
		return nil
	}
	return fmt.Errorf("changes of %s: the record %d is gone, and was not cleared as %s: %w", f.Feed.Name, f.after, f.Reader, lustre.ErrGap)
}

// registered finds out whether the reader is, when nothing was ever read: without one, the
// server records nothing, and the wait for a record has no end. A server refuses to clear the
// first record of a log that has none left. It gives one reason to a reader that is behind it, and
// another one to a reader that is not registered. When the clear succeeds, the log has got its
// very first record in this moment.
//
// From 2.17.57 on both are refused for the same reason, and there is no other question that
// loses nothing. To clear all (0) would lose what comes meanwhile, and what is beyond the log
// is refused to every reader. There the follower waits for a reader that is not registered until
// there is a record. Nor are servers asked that may lose a reader by the question.
func (f *following) registered(ctx context.Context) error {
	f.cleared = time.Now()
	if f.lowClear() != LowClearTells {
		return nil
	}
	err := f.Changes.Clear(ctx, f.Feed, f.Reader, 1)
	switch {
	case err == nil:
		return fmt.Errorf("changes of %s: the first record was cleared: %w", f.Feed.Name, lustre.ErrGap)
	case errors.Is(err, lustre.ErrGap) && !errors.Is(err, ErrNoReader):
		return nil
	}
	return err
}
