package compat

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
)

// said is a line of what a service has said.
type said struct {
	ID, State, Command, Source, Target, Owner string
	Labels                                    map[string]string
	UID                                       uint32
	Dataset, Digest, Tier, Node, Location     string
	Holder, Until, Reason                     string
	Name, Policy, By                          string
	Newest                                    string
	Done                                      struct{ Files int64 }
}

// TestLedger: all that a service has said of its tasks, datasets, replicas, leases, pins, runs and nodes is in the ledger that it has left, also what it tells of for some time only.
func TestLedger(t *testing.T) {
	each(t, func(t *testing.T, release string) {
		dir := t.TempDir()
		unpacked(t, fixture(t, release, "service.tar.gz"), dir)
		l := must.Get(state.Open(filepath.Join(dir, "state/ledger"), state.Options{}))(t)
		defer func() { must.Do(t, l.Close()) }()
		must.Do(t, l.View(func(tx *state.Tx) error {
			for list, want := range map[string]struct {
				least int
				row   func(*state.Tx, said) (string, error) // of what was said
				was   func(said) string
			}{
				"task_list_--all": {18, func(tx *state.Tx, s said) (string, error) {
					m, err := state.Tasks.Get(tx, s.ID)
					words := strings.ToLower(strings.TrimPrefix(m.GetState().String(), "TASK_STATE_"))
					return fmt.Sprint(words, m.GetSpec().GetSource(), m.GetOwner().GetName(), m.GetOwner().GetUid(), m.GetSpec().GetLabels()["run"]), err
				}, func(s said) string { return fmt.Sprint(s.State, s.Source, s.Owner, s.UID, s.Labels["run"]) }},
				"dataset_list": {2, func(tx *state.Tx, s said) (string, error) {
					m, err := state.Datasets.Get(tx, s.Name)
					return m.GetName() + m.GetProject(), err
				}, func(s said) string { return s.Name + "vision" }},
				"dataset_replicas": {3, func(tx *state.Tx, s said) (string, error) {
					for m, err := range state.Replicas.All(tx, state.Range{Prefix: []string{s.Dataset, s.Digest, s.Tier, s.Node}}) {
						return strings.ToLower(strings.TrimPrefix(m.GetState().String(), "REPLICA_STATE_")) + m.GetLocation(), err
					}
					return "", nil
				}, func(s said) string { return s.State + s.Location }},
				"lease_list": {3, func(tx *state.Tx, s said) (string, error) {
					m, err := state.Leases.Get(tx, s.ID)
					return m.GetHolder() + m.GetDataset() + m.GetDigest() + m.GetTier() + m.GetNode() + m.GetOwner().GetName() + when(m.GetExpireTime()), err
				}, func(s said) string { return s.Holder + s.Dataset + s.Digest + s.Tier + s.Node + s.Owner + s.Until }},
				"pin_list": {1, func(tx *state.Tx, s said) (string, error) {
					m, err := state.Pins.Get(tx, s.Dataset, s.Digest, s.Tier)
					return m.GetReason() + when(m.GetUntil()), err
				}, func(s said) string { return s.Reason + s.Until }},
				"policy_history": {2, func(tx *state.Tx, s said) (string, error) {
					m, err := state.Runs.Get(tx, s.ID)
					return fmt.Sprint(m.GetPolicy(), strings.ToLower(strings.TrimPrefix(m.GetState().String(), "RUN_STATE_")), m.GetBy()), err
				}, func(s said) string { return fmt.Sprint(s.Policy, s.State, s.By) }},
				"agent_list": {2, func(tx *state.Tx, s said) (string, error) {
					m, err := state.Agents.Get(tx, s.Name)
					return m.GetAgent().GetName(), err
				}, func(s said) string { return s.Name }},
			} {
				lines := must.Get(os.ReadFile(filepath.Join(dir, "said", list)))(t)
				found := 0
				for line := range strings.Lines(string(lines)) {
					var s said
					must.Do(t, json.Unmarshal([]byte(line), &s))
					got, err := want.row(tx, s)
					if found++; err != nil || got != want.was(s) {
						t.Errorf("%s: %q, %v; it was %q", list, got, err, want.was(s))
					}
				}
				if found < want.least {
					t.Errorf("%s has %d lines", list, found)
				}
			}
			return nil
		}))
	})
}

// when is a time as it is said.
func when(m *timestamppb.Timestamp) string {
	return m.AsTime().Format(time.RFC3339Nano)
}

// unpacked unpacks files and directories of an archive.
func unpacked(t *testing.T, archive []byte, dir string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must.Do(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			must.Do(t, os.MkdirAll(path, 0o755))
		case tar.TypeReg:
			must.Do(t, os.WriteFile(path, must.Get(io.ReadAll(r))(t), 0o600))
		}
	}
}
