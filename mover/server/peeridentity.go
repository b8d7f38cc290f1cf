package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/server/pki"
)

// peerIdentity is what is known of a connection. It does not change.
type peerIdentity struct {
	caller  authz.Caller // zero: unknown
	cert    pki.Identity // zero without a certificate
	peer    string       // the address, for the record
	trouble error        // why the caller is unknown, where there is more to say
	until   time.Time    // when the connection has to end; zero is never
	inside  bool         // ours: each call carries its caller
	page    bool         // the address on loopback
	scrape  bool         // the address that has metrics and health, and nothing else
	unread  *unread      // answers; nil counts none
	secure  bool         // over TLS, where the name of the service is in its certificate
}

// AuthType implements credentials.AuthInfo.
func (*peerIdentity) AuthType() string { return "datamove" }

// GetCommonAuthInfo says that the connection is private, and that no other process changes what is sent.
func (*peerIdentity) GetCommonAuthInfo() credentials.CommonAuthInfo {
	return credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}
}

// originOf returns the origin of a gRPC call; a stranger where there is none.
func originOf(ctx context.Context) *peerIdentity {
	if p, ok := peer.FromContext(ctx); ok {
		if o, ok := p.AuthInfo.(*peerIdentity); ok {
			return o
		}
	}
	return &peerIdentity{}
}

// How long connections stay that have no business to, and those with a peer
// that could not be identified.
const (
	strangerStay = 30 * time.Second
	troubleStay  = 10 * time.Second
)

// Accounts knows the accounts of this node. *osaccount.Directory is one.
type Accounts interface {
	// Peer returns the account at the other end of a socket.
	Peer(ctx context.Context, conn *net.UnixConn) (osaccount.Account, error)
	// Named returns the account of a name. It is of kind mover.ErrPermission when there
	// is none.
	Named(ctx context.Context, name string) (osaccount.Account, error)
	// Numbered returns the account of a uid. It is of kind mover.ErrPermission when there
	// is none.
	Numbered(ctx context.Context, uid uint32) (osaccount.Account, error)
}

// local asks the kernel.
func (d *Server) local(ctx context.Context, conn *net.UnixConn) *peerIdentity {
	a, err := d.o.Accounts.Peer(ctx, conn)
	if err != nil {
		return &peerIdentity{peer: "unix", trouble: err, until: time.Now().Add(troubleStay)}
	}
	return &peerIdentity{peer: "unix", caller: callerOf(a, authz.Local)}
}

func callerOf(a osaccount.Account, via authz.Via) authz.Caller {
	return authz.Caller{Name: a.Name, UID: a.UID, Groups: a.GroupNames, Via: via}
}

// certified looks at the certificate, which the handshake has verified.
func (d *Server) certified(ctx context.Context, state tls.ConnectionState, address string) *peerIdentity {
	o := &peerIdentity{peer: address, secure: true}
	id, err := pki.Peer(state)
	switch {
	case errors.Is(err, pki.ErrAnonymous):
		o.until = time.Now().Add(strangerStay)
	case err != nil:
		o.trouble, o.until = err, time.Now().Add(troubleStay)
	case id.Role == pki.Agent:
		o.cert, o.until = id, id.Expires
		o.caller = authz.Caller{Via: authz.Agent, Agent: id.Name, Serial: id.Serial}
	default:
		d.person(ctx, o, id)
	}
	return o
}

// person finds the account of a person with a certificate.
func (d *Server) person(ctx context.Context, o *peerIdentity, id pki.Identity) {
	name, known := d.o.Rules().Person(id.Name)
	if !known {
		o.trouble, o.until = unmapped(id.Name), time.Now().Add(troubleStay)
		return
	}
	a, err := d.o.Accounts.Named(ctx, name)
	if err != nil {
		o.trouble, o.until = err, time.Now().Add(troubleStay)
		return
	}
	o.cert, o.until, o.caller = id, id.Expires, callerOf(a, authz.Certificate)
}

func unmapped(commonName string) error {
	return fmt.Errorf("%w: the configuration does not say whose certificate %s is (users)", mover.ErrPermission, mover.Printable(commonName))
}

// uidOf returns the uid at the other end of a socket, at once.
func uidOf(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) { cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if asked != nil {
		return 0, os.NewSyscallError("getsockopt", asked)
	}
	return cred.Uid, nil
}
