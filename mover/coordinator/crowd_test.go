package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset"
)

// BenchmarkChange is what changes cost where there are many datasets, each with a replica
// on two tiers and a lease on one of them. CHANGE_DATASETS says how many; 0 means 1,000.
func BenchmarkChange(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("CHANGE_DATASETS"))
	if err != nil {
		n = 1000
	}
	d := newDesk(b, site(), authz.Input{})
	for i := 0; i < n; i += 500 {
		err := d.ledger.Update(context.Background(), state.Soon, func(tx *state.Tx) error {
			for j := i; j < min(i+500, n); j++ {
				if err := d.twoTiers(tx, j); err != nil {
					return err
				}
			}
			return nil
		})
		must.Do(b, err)
	}
	begun := time.Now()
	d.datasets.MakeIndex(context.Background())
	b.Logf("%d replicas and %d leases are read in %v", 2*n, n, time.Since(begun))
	next := 0
	b.Run("release", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:" + crowdName(next%n), Tier: "project"}); err != nil {
				b.Fatal(err)
			}
			next++
		}
	})
	b.Run("lease", func(b *testing.B) {
		for b.Loop() {
			r := &pb.AcquireLeaseRequest{Dataset: crowdName(next % n), Digest: crowdDigest(next % n), Tier: "archive", Ttl: durationpb.New(time.Hour)}
			if _, err := d.datasets.AcquireLease(root, r); err != nil {
				b.Fatal(err)
			}
			next++
		}
	})
	b.Run("purge", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.datasets.Purge(root, &pb.PurgeRequest{Location: fmt.Sprint("scratch:job-", next), Node: "n1"}); err != nil {
				b.Fatal(err)
			}
			next++
		}
	})
	b.Run("stage", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.datasets.Stage(root, &pb.StageRequest{Source: fmt.Sprint("/data/", next), Tier: "scratch", Node: "n1"}); err != nil {
				b.Fatal(err)
			}
			next++
		}
	})
	b.Run("evict", func(b *testing.B) {
		row := d.tier("project")
		row.TotalBytes, row.FreeBytes = 2*int64(n)<<20, 0 // half of what is there has to go, at most removalsMost at once
		for b.Loop() {
			must.Do(b, d.datasets.MakeRoom(b.Context(), row, dataset.Watermarks{High: 80, Low: 50}))
		}
	})
}

// twoTiers records a dataset that is on two tiers, and held on the colder one.
func (d *desk) twoTiers(tx *state.Tx, i int) error {
	name, digest, now := crowdName(i), crowdDigest(i), timestamppb.New(d.clock.Now())
	if err := state.Datasets.Put(tx, &pb.Dataset{Name: name, CreateTime: now, Owner: &pb.Account{Name: "root"}}); err != nil {
		return err
	}
	if err := state.Versions.Put(tx, &ledgerv1.DatasetVersion{Dataset: name, Number: 1, Version: &pb.Version{Digest: digest, Bytes: 1 << 20}}); err != nil {
		return err
	}
	for _, tier := range []string{"project", "archive"} {
		r := &pb.Replica{Dataset: name, Digest: digest, Tier: tier, Location: tier + ":" + dataset.Datasets + "/" + name + "/" + digest, State: whole, Level: pb.Level_LEVEL_READ,
			Bytes: 1 << 20, CreateTime: now, UseTime: now, Owner: &pb.Account{Name: "root"}}
		if err := state.Replicas.Put(tx, r); err != nil {
			return err
		}
		if tier == "archive" {
			if err := state.Leases.Put(tx, newLease(fmt.Sprint("lease-", i), r, "slurm:1", authz.AccountOf(authz.From(root)), now.AsTime(), 24*time.Hour)); err != nil {
				return err
			}
		}
	}
	return nil
}

func crowdName(i int) string { return fmt.Sprintf("set-%07d", i) }

func crowdDigest(i int) string {
	sum := sha256.Sum256([]byte(crowdName(i)))
	return hex.EncodeToString(sum[:])
}
