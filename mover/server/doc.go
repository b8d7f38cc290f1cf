// Package server is where calls come in: it listens, identifies the caller, and
// lets through what the rules allow.
//
// # Words
//
// An entrance is a listener: a unix socket, a TCP address with TLS, or the page's address
// on loopback. A peerIdentity is what is known of a connection: the caller at its other end,
// and how we know. A request is one call: the caller, which is the peer or a person that the peer
// calls for, and what was recorded about it. A connLimit counts the connections that are open.
//
// # Callers
//
// On a unix socket the kernel names the caller, when the connection is made. Its mode is 0666,
// because it is not the file that decides. Over TCP there is only TLS. A
// certificate of the service's own authority names the caller: an agent, or a person with an
// account in the configuration. The account has the uid and groups that the name
// service of this node gives. Without a certificate a caller may join (EnrollService.Join)
// and nothing else, within half a minute. Each connection is asked once.
//
// An agent may ask for a user on its node (metadata
// datamove-on-behalf-of-bin); it is believed because the kernel named the user to the agent. From
// any other caller such metadata is ignored, and that is recorded.
//
// A call may be for another person than its caller (metadata datamove-for-uid, see
// api.For; over HTTP a header of that name). The hooks of a scheduler call so, which run as root. Where
// Rules.MayActFor allows it, the server replaces the caller by that person, before
// anything else is decided, and records tell of both. From any other caller the call is refused, and never
// done as its caller. Name and groups are those of the account here, or on the node of the root account
// that calls. A user on the node's socket that is not root there may call so, too, where a role says it.
//
// The same entrances speak HTTP/1.1: the JSON side of the API below /v1, its
// description at /openapi.json, /metrics, and the page at /. HTTP/2 is for gRPC, so a
// browser comes by the page's address, or by a tunnel to the socket. The JSON side calls over a connection inside the process, which carries the caller.
// No other header of a request than that above gets there. All of HTTP is for persons: for callers that may
// call AdminService.GetInfo. The address on loopback has no TLS and so knows no caller.
// It serves /metrics. Where the configuration gives a role to the member "viewer", it serves
// the page and what that reads (GET), to every local user as that viewer. It never
// changes anything.
//
// # What happens to a call
//
//  1. It becomes a request before its message is read, gets its deadline, and is
//     counted. A caller with too many open calls, or with too many that are no streams, gets no more.
//  2. What panics further in is logged, and is an answer as any other.
//  3. The bucket of the caller has a token, or the call is refused for a while.
//  4. A person that the call is for replaces the caller, and Rules.MayCall decides. What is in no rule is denied, also to root.
//  5. The decision is recorded when it is no, or when the method changes something;
//     what can not be recorded is denied. The service denies by objects and locations:
//     that is recorded here, too, unless it has done so. Reading what one may
//     read is not recorded, and of the stream of an agent only its begin. What
//     it then says carries on what was recorded when it was asked for. Refusals
//     of 3 are no decisions on rights, and are counted only. A caller that is denied a thousand times is held up as in 3.
//
// # Promises
//
// Concurrency: the methods of a Server may be called from many goroutines. Connections of a
// uid, an address, a certificate, and of all are bounded. So are open calls and calls per
// second of a caller, and bytes of headers. A peer that says nothing, or says it slowly, loses its
// connection in ten seconds. One that stops in the middle of a frame loses it in half a minute.
// Root and the uid that runs the service do not count towards the whole of a
// socket, so no other user can keep them out. A connection by certificate ends when
// the certificate does. Nothing is kept: after a crash the next start removes the socket
// that was left, if no process answers there, and never any other file.
//
// The service decides what a caller may do to an object. Package authz has the rules,
// pki the certificates, and auditlog the record of decisions.
//
// TestEveryRoute walks all routes with every caller that should not get in.
// TestIdleConnections and TestSlowly keep connections open, TestForgery sends forged
// metadata, and TestAudit counts records.
package server
