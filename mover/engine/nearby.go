package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/config/spelling"
	"datamove.dev/mover/location"
)

// nearbyMost is how many names around a location are compared with its own.
const nearbyMost = 10_000

// orNearby adds to the error of a location that does not exist the one beside it that has almost the same name.
func orNearby(ctx context.Context, err error, l location.Location, open Opener, o OpenOptions) error {
	if !isAbsent(err) {
		return err
	}
	near := nearby(ctx, l, open, o)
	if near == "" {
		return err
	}
	return asking(err, near)
}

// OrNearby adds to the error of a process that could not look around a path which does not exist the path beside it that has almost the same name. The path is
// one of some locations.
func OrNearby(ctx context.Context, err error, open Opener, locations []location.Location) error {
	if !isAbsent(err) || strings.Contains(err.Error(), didYouMean) {
		return err
	}
	for _, l := range locations {
		if l.IsPath() && strings.Contains(err.Error(), l.Path) {
			if near := nearby(ctx, l, open, OpenOptions{}); near != "" {
				return asking(err, near)
			}
		}
	}
	return err
}

const didYouMean = "did you mean "

func asking(err error, near string) error {
	return fmt.Errorf("%w; "+didYouMean+"%s?", err, mover.Printable(near))
}

// nearby is the location that l was probably meant to be: the first name on the way to it that does not exist has one beside it that is almost the
// same. "" is none.
func nearby(ctx context.Context, l location.Location, open Opener, o OpenOptions) string {
	o.Write, o.Backup = false, ""
	for {
		parent, name, ok := l.Parent()
		if !ok {
			return ""
		}
		place, err := open(ctx, parent, o)
		if errors.Is(err, mover.ErrNotExist) {
			l = parent
			continue
		}
		if err != nil {
			return ""
		}
		names := namesIn(ctx, place)
		_ = place.Close() // it was only looked at
		near := spelling.Nearest(name, names)
		if near == "" || slices.Contains(names, name) { // what is there is not misspelled
			return ""
		}
		return parent.Child(near).String()
	}
}

// namesIn are names in the root of a place, in their order, and of many only some.
func namesIn(ctx context.Context, place mover.Source) (names []string) {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	var mu sync.Mutex
	skip := func(name string, _ mover.Kind) bool {
		mu.Lock()
		defer mu.Unlock()
		if len(names) == nearbyMost {
			enough()
		} else if name != "" && !strings.Contains(name, "/") {
			names = append(names, strings.Clone(name))
		}
		return true
	}
	for _, err := range place.Walk(ctx, mover.WalkOptions{Lazy: true, Skip: skip}) {
		if err != nil {
			break // the names that were seen count
		}
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(names)
	return names
}
