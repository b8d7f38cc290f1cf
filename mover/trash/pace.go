package trash

import (
	"context"

	"golang.org/x/sys/unix"

	"datamove.dev/mover/backend/throttle"
)

// Rate is how much may be removed in a second; 0 is no limit. A file of many bytes goes at once, and what comes after it waits.
type Rate struct{ Entries, Bytes int64 }

// pace holds removals back.
type pace struct{ entries, bytes *throttle.Bandwidth }

func newPace(r Rate) pace {
	return pace{throttle.NewBandwidth(r.Entries), throttle.NewBandwidth(r.Bytes)}
}

// weigh is how many bytes are free when an entry is removed, where that is limited.
func (p pace) weigh(dir int, name string) int64 {
	var st unix.Stat_t
	if p.bytes == nil || unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Nlink > 1 {
		return 0
	}
	return st.Blocks * 512
}

// passed waits until the next entry may go. Its error is that of ctx.
func (p pace) passed(ctx context.Context, bytes int64) error {
	if _, err := p.entries.Wait(ctx, 1); err != nil {
		return ctx.Err()
	}
	if _, err := p.bytes.Wait(ctx, bytes); err != nil {
		return ctx.Err()
	}
	return nil
}
