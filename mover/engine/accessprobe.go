package engine

import (
	"context"
	"errors"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// What ProbeAccess looks at, at most.
const (
	probeEntries = 2000
	probeFolders = 16
)

// ProbeAccess checks whether this account may read l, without reading all of it: it goes there, lists it as far as
// the first 2000 names go, and opens the first file in each of the first 16 folders that have
// one. What can not be listed or opened is an error.
func ProbeAccess(ctx context.Context, l location.Location, open Opener) error {
	place, err := openSource(ctx, l, patiently(open), OpenOptions{})
	if err != nil {
		return err
	}
	defer place.Close()
	place = looking(place)
	ctx, cancel := context.WithCancel(ctx) // the walk reads ahead
	defer cancel()
	names, folders := 0, map[string]bool{}
	for e, err := range place.Walk(ctx, mover.WalkOptions{Lazy: true}) {
		if err != nil {
			return err
		}
		if folder, _ := mover.Parent(e.Name); e.Kind == mover.File && !folders[folder] {
			folders[folder] = true
			if err := opens(ctx, place, e); err != nil {
				return err
			}
		}
		if names++; names == probeEntries || len(folders) == probeFolders {
			break
		}
	}
	return nil
}

// opens opens an entry in the same way as a copy. It ignores that the entry has changed or is gone.
func opens(ctx context.Context, place mover.Source, e mover.Entry) error {
	content, err := place.Open(ctx, e)
	if errors.Is(err, mover.ErrChanged) || errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return content.Close()
}
