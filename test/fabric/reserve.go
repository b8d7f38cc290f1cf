package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// reserve is memory that was touched before a load begins, and that is handed to its
// nodes as they write. A virtual machine that gives free pages back to its host pays
// some 3 s of a CPU for each GB that it touches anew, twenty times what it takes to
// write one (see free page reporting in the kernel's mm/page_reporting). That is the machine
// and not the mover: a row of 32 agents would measure nothing else.
type reserve struct {
	file *os.File
	free int64 // where what is left begins
	size int64
	used int64 // of the file system, with the whole reserve
}

const (
	ahead    = 256 << 20            // bytes that are free at each moment
	page     = 2 << 20              // a large one: what is handed out at once
	handOver = 5 * time.Millisecond // how often
)

// newReserve takes memory in the file system of a rig, and touches it.
func newReserve(ctx context.Context, r *Rig, bytes int64) (*reserve, error) {
	file, err := os.OpenFile(filepath.Join(r.Dir, "reserve"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	v := &reserve{file: file, size: (bytes + ahead + page - 1) / page * page}
	err = v.fill(ctx)
	if err == nil {
		v.used, err = v.inUse()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reserve %d MB of memory: %w", v.size/1e6, err), v.close())
	}
	return v, nil
}

func (v *reserve) fill(ctx context.Context) error {
	zero := make([]byte, page)
	for off := int64(0); off < v.size; off += page {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := v.file.WriteAt(zero, off); err != nil {
			return err
		}
	}
	return nil
}

// inUse is how many bytes of the file system are taken, by the reserve and by others.
func (v *reserve) inUse() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(v.file.Fd()), &st); err != nil {
		return 0, err
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, nil
}

// write is timed, while what the nodes write is given back to them from what a rig
// has in reserve.
func (r *Rig) write(ctx context.Context, nodes []*Node, run func(ctx context.Context, i int, n *Node) (part, error)) (Measure, error) {
	if r.memory == nil {
		return timed(ctx, nodes, run)
	}
	handing, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.memory.hand(handing) }()
	m, err := timed(ctx, nodes, run)
	stop()
	return m, errors.Join(err, <-ended)
}

// hand gives as much away as others have taken, until ctx ends or nothing is left.
func (v *reserve) hand(ctx context.Context) error {
	for v.free < v.size {
		used, err := v.inUse()
		if err != nil {
			return err
		}
		if give := min((used-v.used+ahead)/page*page, v.size-v.free); give > 0 {
			if err := unix.Fallocate(int(v.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, v.free, give); err != nil {
				return fmt.Errorf("hand memory over: %w", err)
			}
			v.free += give
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(handOver):
		}
	}
	return nil
}

func (v *reserve) close() error { return errors.Join(os.Remove(v.file.Name()), v.file.Close()) }
