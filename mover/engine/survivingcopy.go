package engine

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
)

// VerifySurvivingCopy says why what lies at l would be lost without it. mover.ErrChanged means that
// other does not have all of it, as far as names, kinds, sizes and times tell, and
// contents where they do not; mover.ErrConflict that other is the same files by another
// name: a link, a mount. nil means neither.
func VerifySurvivingCopy(ctx context.Context, l, other location.Location, r Request, open Opener) error {
	r.Work, r.Source, r.Target = Copy, l, other
	r.Preserve = mover.FactMtime // beside names, kinds and sizes
	for a, err := range planOnly(ctx, r, open) {
		if errors.Is(err, mover.ErrUsage) { // one holds the other
			return fmt.Errorf("%w: %w", mover.ErrConflict, err)
		}
		if err != nil {
			return err
		}
		if err := covered(&a, other); err != nil {
			return err
		}
	}
	return nil
}

func covered(a *plan.Action, other location.Location) error {
	no := func(kind error, format string, args ...any) error {
		return &mover.Error{Op: "look for", Location: other.String(), Name: a.Name(), Err: fmt.Errorf(format+": %w", append(args, kind)...)}
	}
	kept := a.Op == plan.Keep || a.Op == plan.Update && a.Kind() == mover.Dir // its times are of no content
	switch {
	case !kept:
		return no(mover.ErrChanged, "%s", a.Why)
	case sameFile(&a.Source, &a.Target):
		return no(mover.ErrConflict, "it is the very file, by another name")
	}
	return nil
}

// sameFile reports whether two entries of file systems are one file, also behind two
// mounts, which number their devices differently: nothing else has one inode number and
// one time of change, to the nanosecond. What a manifest numbers has no device.
func sameFile(a, b *mover.Entry) bool {
	if a.Kind != mover.File || a.Dev == 0 || b.Dev == 0 || a.Ino != b.Ino {
		return false
	}
	return a.Dev == b.Dev || a.Known.Has(mover.FactCtime) && b.Known.Has(mover.FactCtime) && a.Ctime == b.Ctime
}
