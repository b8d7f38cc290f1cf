package datasetserver

import (
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/dataset"
)

// versionsMost is how many versions of a dataset are told, and may be there.
const versionsMost = 1000

// parseDataset reads dataset:NAME[@DIGEST].
func parseDataset(text string) (location.Location, error) {
	l, err := location.Parse(text)
	if err == nil && (!l.IsDataset() || !dataset.ValidDataset(l.Name)) {
		err = mover.Usagef("%s is no dataset:NAME", mover.Printable(text))
	}
	return l, err
}

// tag is a version as people write it.
func tag(dataset, digest string) string { return dataset + "@" + digest }

func noDataset(op, name, digest string) error {
	l := location.OfDataset(name, digest)
	return &mover.Error{Op: op, Location: l.String(), Err: mover.Because(mover.ErrNotExist, "there is no such dataset, or version of it; add it first")}
}

// findVersion returns the version of a digest, or the newest.
func findVersion(tx *state.Tx, op, name, digest string) (*ledgerv1.DatasetVersion, error) {
	if !dataset.ValidDataset(name) {
		return nil, mover.Usagef("%s is no name of a dataset", mover.Printable(name))
	}
	rows := state.Versions.All(tx, state.Range{Prefix: []string{name}, Reverse: true})
	if digest != "" {
		rows = state.VersionsByDigest.All(tx, state.Range{Prefix: []string{name, digest}})
	}
	for v, err := range rows {
		return v, err
	}
	return nil, noDataset("find", name, digest)
}

// whole returns a dataset with its versions, newest first.
func withVersions(tx *state.Tx, d *pb.Dataset, most int) (*pb.Dataset, error) {
	for v, err := range state.Versions.All(tx, state.Range{Prefix: []string{d.GetName()}, Reverse: true}) {
		if err != nil || len(d.Versions) == most {
			return d, err
		}
		d.Versions = append(d.Versions, v.GetVersion())
	}
	return d, nil
}

// addVersion makes what a task has described the newest version of its dataset.
func addVersion(tx *state.Tx, t *pb.Task, p taskkind.Result) error {
	name := t.GetSpec().GetStaging().GetDataset()
	number := uint64(1)
	newest, err := findVersion(tx, "add", name, "")
	switch {
	case errors.Is(err, mover.ErrNotExist):
	case err != nil || newest.GetVersion().GetDigest() == p.Digest:
		return err // it is the newest already
	default:
		number = newest.GetNumber() + 1
	}
	v := &pb.Version{Digest: p.Digest, Entries: p.Entries, Bytes: p.Bytes, CreateTime: timestamppb.New(t.GetEndTime().AsTime()), Source: t.GetSpec().GetSource()}
	was, err := findVersion(tx, "add", name, p.Digest)
	switch {
	case err == nil:
		v = was.GetVersion()
		if err := state.Versions.Delete(tx, name, state.Number(was.GetNumber())); err != nil {
			return err
		}
	case !errors.Is(err, mover.ErrNotExist):
		return err
	}
	return state.Versions.Put(tx, &ledgerv1.DatasetVersion{Dataset: name, Number: number, Version: v})
}
