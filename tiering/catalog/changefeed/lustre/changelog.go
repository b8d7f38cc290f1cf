// Package lustre is the feed of a Lustre: the change logs of its MDTs, as lustre/client reads them.
//
// It has memory: the mark of each MDT is the last record that is in the catalog, with its time, by which a log is told from one that was made anew. Without
// marks, with those of an empty log, after a gap, and where a log was turned off, it says All, from a position in the log that it has asked for before. So nothing falls between.
//
// A record names a file, and where it was. Both are asked for their paths of now (FID to path), so that what moves meanwhile is found where it is;
// what is gone by then is told by a later record. What is above the root of the tree, or beside it, is no concern.
//
// The administrator of the file system registers readers (lctl changelog_register), one for each MDT, and each of them belongs to one catalog. To read takes
// root on a client. TestModel holds it to a scan, over kills, gaps and logs that are made anew.
package lustre

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"datamove.dev/lustre"
	"datamove.dev/lustre/client"
	"datamove.dev/mover"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
)

// Log is what is read: [client.Changes], and the paths of [client.Client].
type Log interface {
	lustre.Changes
	// Last is the last record there is.
	Last(ctx context.Context, f lustre.Feed) (uint64, error)
	// Paths are the names that a file has now, below the root of the mount. fs.ErrNotExist: it has none.
	Paths(ctx context.Context, f lustre.FID) ([]string, error)
}

// Of is the log of a mounted file system.
func Of(c *client.Client) Log { return mounted{c.Changes(), c} }

type mounted struct {
	*client.Changes
	client *client.Client
}

func (m mounted) Paths(ctx context.Context, f lustre.FID) ([]string, error) {
	return m.client.Paths(ctx, f)
}

// Feed is the feed of a directory of a Lustre. Log and Reader have to be given.
type Feed struct {
	Log    Log
	Root   string // of the tree, below that of the mount; "" is all of it
	Reader string // that is registered with each MDT: cl1
	// Settle is how old records are when they are handed over, and Pause how long it is between two looks at the end of the log; see client.Follower.
	Settle, Pause time.Duration
}

// Run implements changefeed.Feed.
func (f *Feed) Run(ctx context.Context, marks changefeed.Marks, take changefeed.Take) error {
	mdts, err := f.Log.Feeds(ctx)
	switch {
	case err != nil:
		return denied(err)
	case len(mdts) == 0:
		return fmt.Errorf("%w: this client has no change log", errors.ErrUnsupported)
	}
	places := make([]place, len(mdts))
	whole := changefeed.Batch{All: true, Why: "what happened before this was not recorded, or not read"}
	for i, mdt := range mdts {
		value, err := marks(mdt.Name)
		if err != nil {
			return err
		}
		var known bool
		if places[i], known = readPlace(value); known && places[i].index > 0 { // behind no record a gap is not seen
			continue
		}
		if places[i].index, err = f.Log.Last(ctx, mdt); err != nil {
			return denied(err)
		}
		whole.Marks = append(whole.Marks, places[i].mark(mdt))
	}
	if len(whole.Marks) > 0 {
		if err := take(ctx, whole); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for i, mdt := range mdts {
		g.Go(func() error { return f.follow(ctx, mdt, places[i], take) })
	}
	return g.Wait()
}

// denied makes an error of missing permission to read the log one that is not tried again.
func denied(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w", mover.ErrPermission, err)
	}
	return err
}

// follow reads the log of one MDT.
func (f *Feed) follow(ctx context.Context, mdt lustre.Feed, at place, take changefeed.Take) error {
	for {
		r := &client.Follower{Changes: f.Log, Feed: mdt, Reader: f.Reader, AfterTime: at.time, Settle: f.Settle, Pause: f.Pause}
		err := r.Run(ctx, at.index, func(ctx context.Context, batch []lustre.Change) error {
			b, err := f.batch(ctx, batch)
			if err != nil {
				return err
			}
			next := place{batch[len(batch)-1].Index, batch[len(batch)-1].Time}
			b.Marks = []catalog.Mark{next.mark(mdt)}
			if err = take(ctx, b); err == nil {
				at = next
			}
			return err
		})
		if !errors.Is(err, lustre.ErrGap) || errors.Is(err, client.ErrNoReader) || ctx.Err() != nil {
			return denied(err)
		}
		at = place{}
		if at.index, err = f.Log.Last(ctx, mdt); err != nil {
			return denied(err)
		}
		if err := take(ctx, changefeed.Batch{All: true, Why: "records of " + mdt.Name + " are gone", Marks: []catalog.Mark{at.mark(mdt)}}); err != nil {
			return err
		}
	}
}

// place is where a reader stands.
type place struct {
	index uint64
	time  time.Time // of the record; zero is not known
}

func (p place) mark(mdt lustre.Feed) catalog.Mark {
	b := binary.AppendUvarint(nil, p.index)
	if !p.time.IsZero() {
		b = binary.AppendVarint(b, p.time.UnixNano())
	}
	return catalog.Mark{Feed: mdt.Name, Value: b}
}

// readPlace reads a mark. It knows none of what is no mark of ours.
func readPlace(b []byte) (p place, known bool) {
	index, n := binary.Uvarint(b)
	if n <= 0 {
		return p, false
	}
	p.index = index
	if ns, m := binary.Varint(b[n:]); m > 0 {
		p.time = time.Unix(0, ns).UTC()
	}
	return p, true
}

// silent are the changes of which a catalog knows nothing.
var silent = map[lustre.ChangeType]bool{lustre.ChangeOpen: true, lustre.ChangeGetXattr: true, lustre.ChangeDeniedOpen: true, lustre.ChangeMark: true}

// batch finds the names of what happened.
func (f *Feed) batch(ctx context.Context, changes []lustre.Change) (changefeed.Batch, error) {
	b := changefeed.Batch{Events: len(changes), Since: changes[0].Time}
	n := namer{Feed: f, ctx: ctx, paths: map[lustre.FID][]string{}, names: map[string]bool{}}
	for _, c := range changes {
		if c.LogTurnedOff() {
			b.All, b.Why = true, "the change log was turned off for a while"
		}
		if silent[c.Type] {
			continue
		}
		// Whatever was made or moved may be a directory with something in it.
		whole := c.Type == lustre.ChangeMkdir || c.Type == lustre.ChangeMigrate
		n.file(c.File, whole)
		n.entry(c.Parent, c.Name, whole || c.Type == lustre.ChangeRename || c.Type == lustre.ChangeRenameTo)
		n.file(c.OldFile, true)
		n.entry(c.OldParent, c.OldName, true)
	}
	for name := range n.names {
		b.Names = append(b.Names, name)
	}
	return b, n.err
}

// namer gathers names.
type namer struct {
	*Feed
	ctx   context.Context
	paths map[lustre.FID][]string
	names map[string]bool
	err   error
}

// file adds the names that a file has.
func (n *namer) file(id lustre.FID, whole bool) {
	for _, path := range n.of(id) {
		n.add(path, whole)
	}
}

// entry adds a name in a directory.
func (n *namer) entry(dir lustre.FID, name string, whole bool) {
	if name == "" || dir.IsZero() || strings.ContainsAny(name, "/\x00") {
		return
	}
	for _, path := range n.of(dir) {
		n.add(mover.Join(path, name), whole)
	}
}

// add adds a path of the mount, if it is in the tree.
func (n *namer) add(path string, whole bool) {
	name := path
	if n.Root != "" {
		if !mover.Within(path, n.Root) || path == n.Root {
			return
		}
		name = path[len(n.Root)+1:]
	}
	if name == "" || !mover.ValidName(name) {
		return
	}
	if whole {
		name += "/"
	}
	n.names[name] = true
}

// of are the paths of a file; none is one that is gone.
func (n *namer) of(id lustre.FID) []string {
	if id.IsZero() || n.err != nil {
		return nil
	}
	paths, known := n.paths[id]
	if !known {
		var err error
		if paths, err = n.Log.Paths(n.ctx, id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.err = denied(err)
			return nil
		}
		n.paths[id] = paths
	}
	return paths
}
