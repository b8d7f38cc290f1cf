package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
)

// Admit says whether a certificate that is good in itself may be used: whether it was
// revoked, or is of a node that was forgotten after it was given. It is asked in every
// handshake, and at every call again.
func Admit(books *state.Ledger, id pki.Identity) error {
	return books.View(func(tx *state.Tx) error {
		switch _, err := state.Revoked.Get(tx, id.Serial); {
		case err == nil:
			return fmt.Errorf("%w: the certificate of %s is revoked", mover.ErrPermission, id)
		case !errors.Is(err, mover.ErrNotExist):
			return err
		}
		if id.Role != pki.Agent {
			return nil
		}
		return Remembered(tx, id.Name, id.Serial)
	})
}

// Remembered says why a certificate of a node is not to be believed: the node was
// forgotten, and it is none that was given to it since. No clock decides that. The
// coordinator's own agent has no certificate.
func Remembered(tx *state.Tx, node, serial string) error {
	if serial == "" {
		return nil
	}
	f, err := state.Forgotten.Get(tx, node)
	if err != nil {
		return mover.IgnoreNotExist(err)
	}
	if slices.ContainsFunc(f.GetIssued(), func(i *ledgerv1.Issued) bool { return i.GetSerial() == serial }) {
		return nil
	}
	return fmt.Errorf("%w: agent %s was forgotten at %s, and its certificates with it; a new token lets it join again (datamove agent token)",
		mover.ErrPermission, mover.Printable(node), f.GetForgetTime().AsTime().Format(time.RFC3339))
}

// Trusts says whether an agent that calls may still be believed.
func (s *Server) Trusts(c authz.Caller) error {
	return s.o.Ledger.View(func(tx *state.Tx) error { return Remembered(tx, c.Agent, c.Serial) })
}

// gave notes a certificate that a node is given, where others of it are not believed.
func (s *Server) gave(tx *state.Tx, node string, i pki.Issued) error {
	f, err := state.Forgotten.Get(tx, node)
	if err != nil {
		return mover.IgnoreNotExist(err)
	}
	f.Issued = slices.DeleteFunc(f.GetIssued(), func(i *ledgerv1.Issued) bool { return s.o.Now().Sub(i.GetExpireTime().AsTime()) > ForgottenSpare })
	f.Issued = append(f.GetIssued(), &ledgerv1.Issued{Serial: i.Serial, ExpireTime: timestamppb.New(i.Expires)})
	return state.Forgotten.Put(tx, f)
}

// ForgottenSpare is for how long after the last certificate of a node could have ended it
// is remembered that it was forgotten: a clock may be set back.
const ForgottenSpare = 30 * 24 * time.Hour

// errCutOff keeps a node out for which others go on to vouch: they do not know what its operator knows.
func errCutOff(node string) error {
	return fmt.Errorf("%w: node %s was cut off (agent forget --revoke); a token made for it lets it join again: datamove agent token %[2]s", mover.ErrPermission, mover.Printable(node))
}

// cutOff says whether a node was.
func cutOff(tx *state.Tx, node string) error {
	f, err := state.Forgotten.Get(tx, node)
	if err == nil && f.GetRevoked() {
		return errCutOff(node)
	}
	return mover.IgnoreNotExist(err)
}

// invite has a node that was cut off join again by whatever way it can.
func invite(tx *state.Tx, node string) error {
	f, err := state.Forgotten.Get(tx, node)
	if err != nil || !f.GetRevoked() {
		return mover.IgnoreNotExist(err)
	}
	f.Revoked = false
	return state.Forgotten.Put(tx, f)
}

// EndForgotten lets go of nodes that were forgotten so long ago that all their
// certificates are over.
func (s *Server) EndForgotten(ctx context.Context) error {
	return s.o.Ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
		rows, err := state.Collect(state.Forgotten.All(tx, state.Range{}))
		if err != nil {
			return err
		}
		for _, f := range rows {
			if f.GetRevoked() || s.o.Now().Sub(f.GetExpireTime().AsTime()) <= ForgottenSpare {
				continue
			}
			if err := state.Forgotten.Delete(tx, f.GetName()); err != nil {
				return err
			}
		}
		return nil
	})
}
