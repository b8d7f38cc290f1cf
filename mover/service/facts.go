package service

import (
	"cmp"
	"errors"
	"iter"
	"strings"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/location"
	"datamove.dev/tiering"
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
		marks := tiering.Watermarks{High: int(t.Cache.High), Low: int(t.Cache.Low)}.OrDefault()
		row.HighPercent, row.LowPercent = int32(marks.High), int32(marks.Low)
	}
	if t.S3 != nil {
		l := location.Location{Scheme: location.S3, Bucket: t.S3.Bucket, Prefix: strings.Trim(t.S3.Prefix, "/")}
		row.Location = l.String()
	}
	return row
}

// all collects the rows of a range.
func all[M any](rows iter.Seq2[M, error]) (found []M, err error) {
	for m, err := range rows {
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return found, nil
}

// view is all that the ledger says that the rules may want to know.
func (s *Service) view(tx *ledger.Tx, now time.Time) (*tiering.View, error) {
	f := tiering.Facts{Now: now, Tiers: tierRows(s.conf())}
	var err error
	if f.Replicas, err = all(ledger.Replicas.All(tx, ledger.Range{})); err != nil {
		return nil, err
	}
	if f.Leases, err = all(ledger.Leases.All(tx, ledger.Range{})); err != nil {
		return nil, err
	}
	if f.Pins, err = all(ledger.Pins.All(tx, ledger.Range{})); err != nil {
		return nil, err
	}
	return tiering.Look(f), nil
}

// viewOf is where one version of a dataset is: enough for who wants to read it.
func (s *Service) viewOf(tx *ledger.Tx, now time.Time, dataset, digest string) (*tiering.View, error) {
	replicas, err := all(ledger.Replicas.All(tx, versionRange(dataset, digest)))
	return tiering.Look(tiering.Facts{Now: now, Tiers: tierRows(s.conf()), Replicas: replicas}), err
}

// versionRange is the replicas, or the leases, of one version.
func versionRange(dataset, digest string) ledger.Range {
	return ledger.Range{Prefix: []string{cmp.Or(dataset, ledger.NoDataset), digest}}
}

// ignoreGone is for what need not be there.
func ignoreGone(err error) error {
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	return err
}
