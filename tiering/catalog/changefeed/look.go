package changefeed

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/catalog"
)

const (
	lookNames = 4096
	lookTries = 3    // of names together, before they are tried apart
	leftMost  = 1000 // names that are tried again; of more of them a scan has to tell
	leftEvery = time.Minute
)

func cutSlash(name string) (string, bool) { return strings.CutSuffix(name, "/") }

// lookAll looks at names, some of them in one transaction. They are in their order, so that names of one directory come together.
func (k *Follower) lookAll(ctx context.Context, names []string) error {
	for some := range slices.Chunk(names, cmp.Or(k.Options.Names, lookNames)) {
		if err := k.look(ctx, some, catalog.Mark{}); err != nil {
			return err
		}
	}
	return nil
}

// look looks at names until all were seen, and stores the mark. When it does not come about, and that is not because nothing does, the names are halved
// until the one is found that can not be looked at.
func (k *Follower) look(ctx context.Context, names []string, mark catalog.Mark) error {
	return k.lookTry(ctx, names, mark, lookTries)
}

func (k *Follower) lookTry(ctx context.Context, names []string, mark catalog.Mark, tries int) error {
	for pause := k.pause(); ; tries-- {
		err := k.Catalog.Look(ctx, k.Tree, k.Source, names, mark)
		if err == nil {
			return nil
		}
		if tries > 1 || len(names) == 0 || !k.answers(ctx) {
			if err := k.failed(ctx, "look", err, pause); err != nil {
				return err
			}
			continue
		}
		if len(names) == 1 {
			k.leave(ctx, names[0], err)
			names = nil
			continue
		}
		half := len(names) / 2
		if err := k.lookTry(ctx, names[:half], catalog.Mark{}, 1); err != nil {
			return err
		}
		names = names[half:]
	}
}

// answers reports whether the tree and the catalog do: then it is a name's fault that a look failed.
func (k *Follower) answers(ctx context.Context) bool {
	stat := k.Source.Stat
	if g, ok := mover.As[catalog.Glancer](k.Source); ok {
		stat = g.Glance
	}
	if _, err := stat(ctx, ""); err != nil {
		return false
	}
	return k.Catalog.Look(ctx, k.Tree, k.Source, nil, catalog.Mark{}) == nil
}

// leave gives up on a name for a while.
func (k *Follower) leave(ctx context.Context, name string, err error) {
	k.mu.Lock()
	if k.left == nil {
		k.left = map[string]struct{}{}
	}
	_, known := k.left[name]
	if len(k.left) < leftMost {
		k.left[name] = struct{}{}
	}
	k.mu.Unlock()
	if !known {
		k.log().WarnContext(ctx, "a name can not be looked at; what was known of it stays", "name", mover.Printable(name), "err", err)
	}
}

// lookAgain tries names that were given up on from time to time, until ctx ends.
func (k *Follower) lookAgain(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(k.Options.Left, leftEvery))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		k.mu.Lock()
		names := slices.Sorted(maps.Keys(k.left))
		k.left = nil
		k.mu.Unlock()
		if k.lookAll(ctx, names) != nil {
			return // it is over
		}
	}
}
