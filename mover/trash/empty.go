package trash

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Report is what an Empty has done.
type Report struct {
	Items   int   // that are gone
	Left    int   // that are not, of those that it came to
	Entries int64 // removed, whatever of
}

// Empty removes what is in the trash of a root, an open directory, the oldest first. What stays of an item is told, and the others
// go. It ends with ctx, and the next one goes on. Its thread has the lowest priority, of the processor and of disks.
func Empty(ctx context.Context, root int, r Rate) (done Report, err error) {
	bin, err := open(root)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = unix.Close(bin) }()
	idly(func() { done, err = empty(ctx, bin, r) })
	return done, err
}

func empty(ctx context.Context, bin int, r Rate) (done Report, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(bin, &st); err != nil {
		return done, failed("look at", bin, "", err)
	}
	c := newClearing(ctx, r)
	c.way, c.roof = []level{{bin, st.Dev}}, 1 // what is raised stays in its item
	var all faults
	for after := ""; ; {
		names, err := oldest(bin, after)
		if err != nil || len(names) == 0 {
			all.add(err)
			return done, all.err()
		}
		for _, name := range names {
			err := c.item(name)
			done.Entries = c.gone
			if over := ctx.Err(); over != nil {
				return done, errors.Join(over, all.err())
			}
			if all.add(err); err != nil {
				done.Left++
			} else {
				done.Items++
			}
		}
		after = names[len(names)-1]
	}
}

// item removes an item of the trash, which is the first on the way.
func (c *clearing) item(name string) error {
	c.faults = faults{}
	if err := c.remove(name); err != nil {
		return err
	}
	return c.faults.err()
}

// itemsOnce are the names of the trash that are in memory at once.
const itemsOnce = 1024

// oldest lists the next items of the trash after one, by their names.
func oldest(bin int, after string) ([]string, error) {
	fd, err := openBeneath(bin, ".")
	if err != nil {
		return nil, failed("list", bin, "", err)
	}
	f := os.NewFile(uintptr(fd), "trash")
	defer f.Close()
	var kept []string
	for {
		names, err := f.Readdirnames(itemsOnce)
		for _, name := range names {
			if name > after {
				kept = append(kept, name)
			}
		}
		slices.Sort(kept)
		kept = kept[:min(len(kept), itemsOnce)]
		if err == io.EOF {
			return kept, nil
		}
		if err != nil {
			return nil, failed("list", bin, "", err)
		}
	}
}
