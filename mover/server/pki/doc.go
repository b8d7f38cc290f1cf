// Package pki is the service's own small public key infrastructure. Agents
// and remote persons prove their identity by a certificate that only the service gives.
//
// # Words
//
// The [Authority] is the key that signs, in one file of the coordinator. An
// [Identity] is a role and a name; it stands in a certificate as one URI,
// datamove://agent/NAME. A [Token] lets one node join once: it holds a secret and
// the pin of the authority, so a node knows the service before it says anything. A
// [Store] keeps the certificate of a node or a person in a directory, and renews it.
//
// # Promises
//
// TLS 1.3, ECDSA on P-256, nothing to choose. Nothing of a request for a certificate
// is taken over but its public key. A client without a certificate has no identity
// ([ErrAnonymous]). A client with one that is not of this authority, not of this
// time, not for this use, or refused by [ServerOptions.Admit] gets no connection.
// Sessions are not resumed, so every connection is judged.
//
// Certificates are short: 24 hours for an agent. When the certificate of a server nears
// its end, the server makes a new one in the next handshake. A Store renews when a third is
// left; neither needs a restart. Not-before lies 5 minutes in the past, for clocks
// that differ.
//
// A rotation of the authority breaks nothing: the new one is signed by the old one,
// too. So a client with only the old one still knows the server, and learns the new one
// with the next renewal.
//
// Everything may be used from many goroutines. Files are written whole or not at
// all, and are durable when a call returns. A damaged authority is an error; it is
// never replaced, for that would lock out every node.
//
// # Left to others
//
// The coordinator's state sees to it that a token is used once, and keeps the agents that are revoked or
// forgotten (enroll.Admit).
// What an identity may do is the service's table. A connection that is open when its
// peer is revoked stays open: the service judges each call by [Peer] again.
//
// TestWhoGetsIn is the table of clients that get in, TestPinOnFirstContact the join with
// an attacker in the middle. TestRenewal is two months of a Store, TestRotation the change of
// the authority.
package pki
