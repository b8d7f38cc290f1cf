package transfer_test

import (
	"errors"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// TestFaultTravels: what was wrong is the same on the other side.
func TestFaultTravels(t *testing.T) {
	for _, sent := range []transfer.Fault{{Kind: "CORRUPT", Text: "read /a/f: it is so", Unlike: true}, {Kind: "CORRUPT", Text: "read back f"}, {Kind: "OTHER", Text: "input/output error", Unconfirmed: true}, {Kind: "UNSUPPORTED", Text: "too long", NoSuchName: true}, {Kind: "CONFLICT", Text: "another", Namesake: true}} {
		b := must.Get((&transfer.Reply{Failed: &sent}).Encode())(t)
		reply := must.Get(transfer.DecodeReply(b))(t)
		got := reply.Failed.Err()
		if got.Error() != sent.Text || mover.KindName(got) != sent.Kind || errors.Is(got, mover.ErrUnlike) != sent.Unlike || errors.Is(got, mover.ErrUnconfirmed) != sent.Unconfirmed ||
			errors.Is(got, mover.ErrNoSuchName) != sent.NoSuchName || errors.Is(got, mover.ErrNamesake) != sent.Namesake {
			t.Errorf("of %v came %v, %s", sent, got, mover.KindName(got))
		}
	}
}
