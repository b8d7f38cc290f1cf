package enroll

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
	"datamove.dev/test/must"
)

var begun = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)

// TestTrusted: a certificate is admitted unless it is revoked, or of a node that was forgotten and has not had it since.
func TestTrusted(t *testing.T) {
	l := must.Get(state.Open(t.TempDir(), state.Options{}))(t)
	t.Cleanup(func() { must.Tell(t, l.Close()) })
	now := begun
	s := &Server{o: Options{Ledger: l, Now: func() time.Time { return now }}}
	must.Do(t, l.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
		at, end := timestamppb.New(begun), timestamppb.New(begun.Add(time.Hour))
		return errors.Join(state.Revoked.Put(tx, &ledgerv1.Revoked{Serial: "a1", RevokeTime: at, ExpireTime: end}),
			state.Forgotten.Put(tx, &ledgerv1.Forgotten{Name: "n1", ForgetTime: at, ExpireTime: end}),
			state.Forgotten.Put(tx, &ledgerv1.Forgotten{Name: "n2", ForgetTime: at, ExpireTime: end, Revoked: true}),
			s.gave(tx, "n1", pki.Issued{Serial: "b2", Expires: begun.Add(time.Hour)}), s.gave(tx, "n3", pki.Issued{Serial: "b3", Expires: begun.Add(time.Hour)}))
	}))
	for _, row := range []struct {
		name string
		id   pki.Identity
		want error
	}{
		{"a person", pki.Identity{Role: pki.User, Name: "ada", Serial: "c1"}, nil},
		{"revoked", pki.Identity{Role: pki.User, Name: "ada", Serial: "a1"}, mover.ErrPermission},
		{"a person named like a node that was forgotten", pki.Identity{Role: pki.User, Name: "n1", Serial: "c1"}, nil},
		{"a node", pki.Identity{Role: pki.Agent, Name: "n3", Serial: "c1"}, nil},
		{"of a node that was forgotten", pki.Identity{Role: pki.Agent, Name: "n1", Serial: "b1"}, mover.ErrPermission},
		{"given to it since", pki.Identity{Role: pki.Agent, Name: "n1", Serial: "b2"}, nil},
		{"the coordinator's own agent, which has none", pki.Identity{Role: pki.Agent, Name: "n1"}, nil},
	} {
		if err := Admit(l, row.id); !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
		if row.id.Role == pki.Agent {
			if err := s.Trusts(authz.Caller{Agent: row.id.Name, Serial: row.id.Serial}); !errors.Is(err, row.want) {
				t.Errorf("a call of %s: %v, want %v", row.name, err, row.want)
			}
		}
	}
	must.Do(t, l.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
		if err := cutOff(tx, "n2"); !errors.Is(err, mover.ErrPermission) {
			t.Errorf("a node that was cut off: %v", err)
		}
		return errors.Join(cutOff(tx, "n1"), cutOff(tx, "n3"))
	}))
	for _, row := range []struct {
		after  time.Duration
		invite string
		left   int
	}{{ForgottenSpare + time.Hour, "", 2}, {ForgottenSpare + 2*time.Hour, "", 1}, {ForgottenSpare + 2*time.Hour, "n2", 0}} {
		now = begun.Add(row.after)
		must.Do(t, l.Update(t.Context(), state.Soon, func(tx *state.Tx) error { return invite(tx, row.invite) }))
		must.Do(t, s.EndForgotten(t.Context()))
		must.Do(t, l.View(func(tx *state.Tx) error {
			all, err := state.Collect(state.Forgotten.All(tx, state.Range{}))
			if len(all) != row.left {
				t.Errorf("after %v %d nodes are forgotten, want %d: %v", row.after, len(all), row.left, all)
			}
			return err
		}))
	}
}
