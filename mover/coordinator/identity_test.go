package coordinator

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/enroll"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
)

// TestIdentities: a certificate is issued for a name that the configuration maps to an account, for a bounded time; it is refused once it is revoked, also
// after a restore of a ledger that knows nothing of that.
//
//safety:7 a ledger is restored that is older than the revocation of a person's certificate
func TestIdentities(t *testing.T) {
	conf := site()
	conf.Users = map[string]config.User{"ada": {Certificate: "ada@site"}}
	d := newDesk(t, conf, authz.Input{Users: map[string]string{"ada@site": "ada"}})
	authority, err := pki.OpenAuthority(t.TempDir())
	wants(t, "an authority", err, nil)
	d.enrolls(authority, nil)
	issue := func(name string, life time.Duration) (*pb.IssuedIdentity, error) {
		return d.admin.IssueIdentity(root, &pb.IssueIdentityRequest{Name: name, Csr: request(t, name), Life: durationpb.New(life)})
	}
	wants(t, "a name of no account", second(issue("grace", 0)), mover.ErrUsage)
	wants(t, "two years", second(issue("ada@site", 2*enroll.PersonMost)), mover.ErrUsage)
	given, err := issue("ada@site", 0)
	wants(t, "issue", err, nil)
	short, err := issue("ada@site", time.Hour)
	wants(t, "for an hour", err, nil)
	if longer := given.GetExpireTime().AsTime().Sub(short.GetExpireTime().AsTime()).Round(time.Hour); given.GetAccount() != "ada" || longer != enroll.PersonLife-time.Hour {
		t.Errorf("%s, for %v more than an hour", given.GetAccount(), longer)
	}
	id := pki.Identity{Role: pki.User, Name: "ada@site", Serial: given.GetSerial()}
	wants(t, "admitted", enroll.Admit(d.ledger, id), nil)
	wants(t, "revoke what is none", second(d.admin.RevokeIdentity(root, &pb.RevokeIdentityRequest{Serial: "xyz"})), mover.ErrUsage)
	wants(t, "revoke", second(d.admin.RevokeIdentity(root, &pb.RevokeIdentityRequest{Serial: given.GetSerial()})), nil)
	wants(t, "revoked", enroll.Admit(d.ledger, id), mover.ErrPermission)
	wants(t, "an older ledger", d.ledger.Update(t.Context(), state.Durable, func(tx *state.Tx) error { return state.Revoked.Delete(tx, given.GetSerial()) }), nil)
	wants(t, "restore", second(enroll.AfterRestore(t.Context(), d.ledger, d.Service.o.Data)), nil)
	wants(t, "revoked, after a restore", enroll.Admit(d.ledger, id), mover.ErrPermission)
}
