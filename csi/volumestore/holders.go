package volumestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// nodesDir has a directory for each node, with one for each volume that the node holds: a volume that only one node may have at a time. In that is a link for each
// mount, to its target. A node that holds something says from time to time that it lives, in beatFile.
const (
	nodesDir = "nodes"
	beatFile = "beat.json"
)

// Holder is a node that holds a volume, and what it has said last: as long as that changes, the node lives.
type Holder struct{ Node, Beat string }

// Holding is a mount of a volume that its node holds, or all of them. One without a target was begun only.
type Holding struct {
	Key, Target string
	All         bool
}

type beat struct {
	At time.Time `json:"at"`
}

// heldKey is the name of a volume among its holders.
func heldKey(id volume.ID) string { return volume.KeyOf("", id.Kind, id.String()) }

func targetKey(target string) string { return volume.KeyOf("", "target", target) }

// Hold has a node hold a volume for a target, and returns the other nodes that do. Each says that it holds a volume before it looks for others: of two that
// come at once, at least one sees the other. Let go of what is not yours to hold. Where a node can not say that, the error is of kind [mover.ErrUnsupported].
func (b *Base) Hold(ctx context.Context, node string, id volume.ID, target string) (others []Holder, err error) {
	defer func() {
		if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: this node can not write to the volumes there: %s", mover.ErrUnsupported, err.Error())
		}
	}()
	nodes, mine, err := b.holder(node)
	if err != nil {
		return nil, err
	}
	defer nodes.close()
	defer mine.close()
	if beats, err := mine.has(beatFile); err != nil || !beats {
		if err := errors.Join(err, mine.write(beatFile, beat{time.Now()}, true)); err != nil {
			return nil, err
		}
	}
	if err := mine.holds(heldKey(id), target); err != nil {
		return nil, err
	}
	names, err := nodes.names()
	for _, other := range names {
		if other == node {
			continue
		}
		h, holds, lookErr := nodes.holderOf(other, heldKey(id))
		if err = errors.Join(err, lookErr); holds {
			others = append(others, h)
		}
	}
	return others, errors.Join(err, ctx.Err())
}

// holder opens the directory of all nodes, and that of one.
func (b *Base) holder(node string) (nodes, mine dir, err error) {
	if b.top < 0 {
		return -1, -1, fmt.Errorf("%w: the driver's configuration has no volumes there", mover.ErrUnsupported)
	}
	if nodes, err = b.top.make(nodesDir, 0o700); err != nil {
		return -1, -1, err
	}
	if mine, err = nodes.make(node, 0o700); err != nil {
		nodes.close()
	}
	return nodes, mine, err
}

// holds makes the link of a mount.
func (d dir) holds(key, target string) error {
	for range 3 { // another call may just let go of the last mount before
		at, err := d.make(key, 0o700)
		if err != nil {
			return err
		}
		err = unix.Symlinkat(target, int(at), targetKey(target))
		if err == nil {
			err = errors.Join(at.sync(), d.sync())
		}
		at.close()
		if err == nil || err == unix.EEXIST {
			return nil
		}
		if err != unix.ENOENT {
			return failed("hold", d, key, err)
		}
	}
	return failed("hold", d, key, unix.ENOENT)
}

// holderOf says whether a node holds a volume, and what it has said last.
func (d dir) holderOf(node, key string) (h Holder, holds bool, err error) {
	at, err := d.sub(node)
	if err != nil {
		return h, false, missing(err)
	}
	defer at.close()
	if holds, err = at.has(key); err != nil || !holds {
		return h, false, err
	}
	var last beat
	err = missing(at.read(beatFile, &last))
	return Holder{node, last.At.Format(time.RFC3339Nano)}, true, err
}

// Held returns what a node holds, and says that it lives, if it holds something.
func (b *Base) Held(ctx context.Context, node string) (all []Holding, err error) {
	if b.top < 0 {
		return nil, nil
	}
	nodes, err := b.top.sub(nodesDir)
	if err != nil {
		return nil, missing(err)
	}
	defer nodes.close()
	mine, err := nodes.sub(node)
	if err != nil {
		return nil, missing(err)
	}
	defer mine.close()
	keys, err := mine.names()
	for _, key := range keys {
		at, openErr := mine.sub(key)
		if openErr != nil { // it says that the node lives, or is gone
			continue
		}
		targets, listErr := at.names()
		err = errors.Join(err, listErr)
		if len(targets) == 0 {
			all = append(all, Holding{Key: key})
		}
		for _, name := range targets {
			b := make([]byte, unix.PathMax)
			if n, err := unix.Readlinkat(int(at), name, b); err == nil {
				all = append(all, Holding{Key: key, Target: string(b[:n])})
			}
		}
		at.close()
	}
	if len(all) > 0 {
		err = errors.Join(err, mine.write(beatFile, beat{time.Now()}, true))
	}
	return all, errors.Join(err, ctx.Err())
}

// LetGo has a node hold a volume for a target no more. What it does not hold is let go.
func (b *Base) LetGo(_ context.Context, node string, h Holding) error {
	nodes, mine, err := b.holder(node)
	if err != nil {
		return err
	}
	defer nodes.close()
	defer mine.close()
	at, err := mine.sub(h.Key)
	if err != nil {
		return missing(err)
	}
	defer at.close()
	var names []string
	switch {
	case h.All:
		names, err = at.names()
	case h.Target != "":
		names = []string{targetKey(h.Target)}
	}
	for _, name := range names {
		if linkErr := unix.Unlinkat(int(at), name, 0); linkErr != unix.ENOENT {
			err = errors.Join(err, failed("let go", at, name, linkErr))
		}
	}
	if err != nil {
		return err
	}
	err = unix.Unlinkat(int(mine), h.Key, unix.AT_REMOVEDIR)
	if err == unix.ENOTEMPTY || err == unix.EEXIST || err == unix.ENOENT { // it has another mount, or is let go
		return nil
	}
	return failed("let go", mine, h.Key, err)
}

// HeldAs is a volume at a target, as Held has it; with "" as the target it is all mounts of it.
func HeldAs(id volume.ID, target string) Holding {
	return Holding{Key: heldKey(id), Target: target, All: target == ""}
}
