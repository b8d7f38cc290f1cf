package datasetserver

import (
	"cmp"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/tiering/dataset"
)

// everyNode stands for the node of a tier that each node has one of, where the rules
// want to know only that.
const everyNode = "*"

// tierRows are the tiers of a configuration in the words of the rules.
func tierRows(c *config.Config) (rows []*pb.Tier) {
	for name, t := range c.Tiers {
		row := tierRow(name, t)
		if t.NodeLocal {
			row.Node = everyNode
		}
		rows = append(rows, row)
	}
	return rows
}

// tierRow is a tier without a node.
func tierRow(name string, t config.Tier) *pb.Tier {
	row := &pb.Tier{Name: name, Level: t.Level, Location: t.Path, Ephemeral: t.Ephemeral, KeepFreePercent: int32(t.KeepFree)}
	if t.Cache != nil {
		marks := dataset.Watermarks{High: int(t.Cache.High), Low: int(t.Cache.Low)}.OrDefault()
		row.HighPercent, row.LowPercent = int32(marks.High), int32(marks.Low)
	}
	if t.S3 != nil {
		row.Location = t.At("").String()
	}
	return row
}

// view is all that the ledger says that the rules may want to know.
func (s *records) view(tx *state.Tx, now time.Time) (*dataset.View, error) {
	f := dataset.Facts{Now: now, Tiers: tierRows(s.conf())}
	var err error
	if f.Replicas, err = state.Collect(state.Replicas.All(tx, state.Range{})); err != nil {
		return nil, err
	}
	if f.Leases, err = state.Collect(state.Leases.All(tx, state.Range{})); err != nil {
		return nil, err
	}
	if f.Pins, err = state.Collect(state.Pins.All(tx, state.Range{})); err != nil {
		return nil, err
	}
	return dataset.Look(f), nil
}

// viewOf is where one version of a dataset is, without leases and pins: enough for a reader.
func (s *records) viewOf(tx *state.Tx, now time.Time, name, digest string) (*dataset.View, error) {
	replicas, err := state.Collect(state.Replicas.All(tx, versionRange(name, digest)))
	return dataset.Look(dataset.Facts{Now: now, Tiers: tierRows(s.conf()), Replicas: replicas}), err
}

// versionRange is the replicas, or the leases, of one version.
func versionRange(dataset, digest string) state.Range {
	return state.Range{Prefix: []string{cmp.Or(dataset, state.NoDataset), digest}}
}
