package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

var _ lustre.Changes = (*Changes)(nil)

// Changes reads the change logs of a Lustre from the devices that its clients have, one
// for each MDT. Only root can. A server writes a log while a reader is registered for it (lctl
// changelog_register), and keeps each record until all registered readers have cleared it.
//
// The records of a log are counted one by one. A missing number is a lost change, and ends
// a reading with [lustre.ErrGap]. It can also belong to a record that is on its way: older
// servers count before they write, so that two writers can change their order. Such a hole is
// waited for, up to Settle, before it is a gap.
//
// The logs of different MDTs have no order among each other: what is moved from one to the
// other is told by both.
//
// What is not told by any record is found out with [Changes.Clear]. The server refuses it to a reader
// that is not registered, or that has a position which is not in the log. A log that was begun
// anew counts from 1, and would be read as one without news until it has caught up.
//
// How far a reader is behind the log is known on the server only (mdd.*.changelog_users).
// From here it can be said how old the last record is that was read, and, once a reading
// came to the end, that nothing was left.
//
// Methods may be used at the same time.
type Changes struct {
	// Settle is how long a missing record is waited for; 0 means 30 s.
	Settle time.Duration

	name    string // of the file system
	devices devices
	now     func() time.Time
	version func(lustre.Feed) string // of its MDT; "" is not known

	mu    sync.Mutex
	holes map[string]hole // by feed: what was missing at the end of the last reading
}

// hole is a number that was missing, and since when.
type hole struct {
	index uint64
	seen  time.Time
}

// ChangesOf reads the change logs of the file system of that name.
func ChangesOf(name string) *Changes {
	return &Changes{name: name, devices: linuxDevices{}, now: time.Now, version: func(f lustre.Feed) string { return versionOf(linux{}.files(), f) }, holes: make(map[string]hole)}
}

// Changes reads the change logs of the file system.
func (c *Client) Changes() *Changes { return ChangesOf(c.Name) }

// changePrefix is how the names of devices begin, in /dev.
const changePrefix = "changelog-"

// feedName is what follows: a file system, of up to eight characters, and an MDT.
var feedName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z0-9_.-]{1,64})-MDT[0-9a-f]{4}$`) })

// Feeds returns one for each MDT of the file system, in their order.
func (c *Changes) Feeds(ctx context.Context) ([]lustre.Feed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	names, err := c.devices.names()
	if err != nil {
		return nil, fmt.Errorf("change logs of %s: %w", c.name, err)
	}
	var feeds []lustre.Feed
	for _, name := range names {
		feed := strings.TrimPrefix(filepath.Base(name), changePrefix)
		if m := feedName().FindStringSubmatch(feed); m != nil && m[1] == c.name {
			feeds = append(feeds, lustre.Feed{Name: feed})
		}
	}
	slices.SortFunc(feeds, func(a, b lustre.Feed) int { return cmp.Compare(a.Name, b.Name) })
	if len(feeds) == 0 {
		return nil, fmt.Errorf("change logs of %s: this client has no device /dev/%s%s-MDT*: %w", c.name, changePrefix, c.name, errors.ErrUnsupported)
	}
	return feeds, nil
}

// Read yields what follows the record `after`. With after 0 it begins with the first
// record that is there, whatever it is.
func (c *Changes) Read(ctx context.Context, f lustre.Feed, after uint64) iter.Seq2[lustre.Change, error] {
	return func(yield func(lustre.Change, error) bool) {
		wanted := true
		err := c.read(ctx, f, after, func(r lustre.Change) bool {
			wanted = yield(r, nil)
			return wanted
		})
		if err != nil && wanted {
			yield(lustre.Change{}, fmt.Errorf("changes of %s after %d: %w", f.Name, after, err))
		}
	}
}

// read calls take for each record in order, until it returns false.
func (c *Changes) read(ctx context.Context, f lustre.Feed, after uint64, take func(lustre.Change) bool) error {
	order := &inOrder{next: after + 1, open: after == 0}
	ended, err := c.records(ctx, f, order.next, func(r lustre.Change) (bool, error) {
		return order.add(r, take)
	})
	if err != nil || !ended {
		return err
	}
	if more, err := order.drain(take); err != nil || !more {
		return err
	}
	return c.judge(f, order)
}

// records calls take for each record of a device from the index first, in the order in
// which they are written. ended is false when take did not want more.
func (c *Changes) records(ctx context.Context, f lustre.Feed, first uint64, take func(lustre.Change) (bool, error)) (ended bool, err error) {
	d, err := c.open(f, unix.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	// A module that does not know the flag has no addresses that would need it.
	_ = d.setFlags(uapi.ChangeBigNID)
	if err := d.seek(first); err != nil {
		return false, fmt.Errorf("seek: %w", err)
	}
	buffer := make([]byte, 4*uapi.MaxChange)
	for {
		n, err := d.read(ctx, buffer)
		if err != nil || n == 0 {
			return err == nil, err
		}
		for rest := buffer[:n]; len(rest) > 0; {
			r, size, err := uapi.DecodeChange(rest)
			if err != nil {
				return false, err
			}
			rest = rest[size:]
			if more, err := take(r); err != nil || !more {
				return false, err
			}
		}
	}
}

// judge says what is to be made of records that were held back at the end of a log,
// because one before them is missing.
func (c *Changes) judge(f lustre.Feed, order *inOrder) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(order.held) == 0 {
		delete(c.holes, f.Name)
		return nil
	}
	now, settle := c.now(), cmp.Or(c.Settle, 30*time.Second)
	known := c.holes[f.Name]
	if known.index != order.next {
		known = hole{order.next, now}
		c.holes[f.Name] = known
	}
	if now.Sub(order.first().Time) < settle && now.Sub(known.seen) < settle {
		return nil // it may be on its way
	}
	return order.gap()
}

// Last returns the number of the last record there is, 0 of an empty log. A caller that scans
// everything after this call begins to read there. Gaps are not reported.
func (c *Changes) Last(ctx context.Context, f lustre.Feed) (uint64, error) {
	var last uint64
	_, err := c.records(ctx, f, 1, func(r lustre.Change) (bool, error) {
		last = max(last, r.Index)
		return true, ctx.Err()
	})
	if err != nil {
		return 0, fmt.Errorf("last change of %s: %w", f.Name, err)
	}
	return last, nil
}

// importPlaces are where a client tells what it knows of the MDTs that it is connected to: lustre/mdc/lproc_mdc.c has "import" in proc, and younger modules
// in debugfs, which a confined process does not see.
var importPlaces = []string{"proc/fs/lustre/mdc/", "sys/fs/lustre/mdc/", "sys/kernel/debug/lustre/mdc/"}

// versionOf is that of the MDT of a feed, as it was told to its client (target_version in obd_connect_data_seqprint of lustre/obdclass/lprocfs_status.c), else
// that of the module of this machine; "" is not known.
func versionOf(files fs.FS, f lustre.Feed) string {
	for _, place := range importPlaces {
		names, _ := fs.Glob(files, place+f.Name+"-mdc-*/import")
		for _, name := range names {
			text, err := readParameter(files, name)
			if _, version, found := strings.Cut(text, "target_version:"); err == nil && found {
				return parseVersion(strings.TrimSpace(version))
			}
		}
	}
	b, err := readParameter(files, "sys/fs/lustre/version")
	if err != nil {
		return ""
	}
	return parseVersion(b)
}

// LowClear is what a server makes of the clearing of less than was cleared before (LU-20351).
type LowClear int

// What servers make of it.
const (
	LowClearTells LowClear = iota // up to 2.17.50: it is refused, in another way than to a reader that is not registered
	LowClearLoses                 // 2.17.51 to 2.17.56: the reader may be gone by it
	LowClearHides                 // from 2.17.57 on, and where the version is not known: it is refused as to a reader that is not registered
)

// LowClear says what the server of a feed makes of a low clearing.
func (c *Changes) LowClear(f lustre.Feed) LowClear {
	var v [3]int
	if n, _ := fmt.Sscanf(c.version(f), "%d.%d.%d", &v[0], &v[1], &v[2]); n < len(v) {
		return LowClearHides
	}
	switch {
	case slices.Compare(v[:], []int{2, 17, 51}) < 0:
		return LowClearTells
	case slices.Compare(v[:], []int{2, 17, 57}) < 0:
		return LowClearLoses
	}
	return LowClearHides
}

// readerName is a registered reader: cl1, or with the name that it was given, cl1-backup.
var readerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(cl[0-9]{1,9})(-[A-Za-z0-9_.-]{1,32})?$`) })

// ErrNoReader means that no reader of that name is registered for a change log. It comes with
// lustre.ErrGap: the server does not keep the changes since the reader was registered, if it ever was.
var ErrNoReader = errors.New("no such reader is registered")

// Clear lets the server forget the records up to an index, and tells it that the reader
// is alive: one that is silent for long can be deregistered. Done with the index at which
// a reader stands, it is also the proof that nothing after it is gone; the error is
// [lustre.ErrGap] when something is. Index 0 clears nothing: to a server it means all.
func (c *Changes) Clear(ctx context.Context, f lustre.Feed, reader string, upTo uint64) error {
	m := readerName().FindStringSubmatch(reader)
	if m == nil {
		return fmt.Errorf("clear %s: %q is no reader: lctl changelog_register gives a name like cl1", f.Name, reader)
	}
	if err := ctx.Err(); err != nil || upTo == 0 {
		return err
	}
	d, err := c.open(f, unix.O_WRONLY)
	if err != nil {
		return fmt.Errorf("clear %s: %w", f.Name, err)
	}
	err = errors.Join(d.write(fmt.Appendf(nil, "clear:%s:%d", m[1], upTo)), d.close())
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("clear %s as %s: %w: lctl --device %s changelog_register on its server makes one: %w", f.Name, reader, ErrNoReader, f.Name, lustre.ErrGap)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("clear %s: the record %d is not where %s can stand: another has cleared more as %s, or the log was begun anew: %w", f.Name, upTo, reader, reader, lustre.ErrGap)
	case err != nil:
		return fmt.Errorf("clear %s up to %d as %s: %w", f.Name, upTo, reader, err)
	}
	return nil
}

func (c *Changes) open(f lustre.Feed, mode int) (device, error) {
	m := feedName().FindStringSubmatch(f.Name)
	if m == nil || m[1] != c.name {
		return nil, fmt.Errorf("%q is no feed of %s", f.Name, c.name)
	}
	d, err := c.devices.open(changePrefix+f.Name, mode)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("/dev/%s%s: only root reads change logs: %w", changePrefix, f.Name, err)
	case err != nil:
		return nil, fmt.Errorf("/dev/%s%s: %w", changePrefix, f.Name, err)
	}
	return d, nil
}
