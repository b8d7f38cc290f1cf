// Package server is where callers come in: it listens, finds out who is there, and
// lets through what the rules allow.
//
// # Words
//
// An entrance is a listener: a unix socket, a TCP address with TLS, the page's address
// on loopback. An origin is what is known of a connection: who is at its other end,
// and how we know. A visit is one call: the caller, who is the origin or somebody for
// whom it asks, and what was written down about it. A crowd counts who is here.
//
// # Who calls
//
// On a unix socket the kernel says it, when the connection is made: its mode is 0666,
// because it is not the file that decides. Over TCP there is only TLS, and a
// certificate of the service's own authority says it: of an agent, or of a person whose
// account the configuration names; an account has the uid and groups that the name
// service of this node gives. Without a certificate one may join (EnrollService.Join)
// and nothing else, within half a minute. Each connection is asked once.
//
// An agent may say that somebody on its node asks through it (metadata
// datamove-on-behalf-of-bin); it is believed because the kernel told the agent. From
// anybody else such words are ignored, and that is recorded.
//
// A call may be for another person than its caller (metadata datamove-for-uid, see
// api.For; over HTTP a header of that name), as hooks of a scheduler call, which run as root. Where
// Rules.MayActFor allows it, that person stands in the place of the caller, before
// anything else is decided, and records tell of both; from anybody else the call is refused, and never
// done as its caller. Name and groups are those of the account here, or on the node whose root
// calls. Who is on the node's socket and is not root there may call so, too, where a role says it.
//
// The same entrances speak HTTP/1.1: the JSON side of the API below /v1, its
// description at /openapi.json, /metrics, and the page at /. HTTP/2 is for gRPC, so a
// browser comes by the page's address, or by a tunnel to the socket. Behind the JSON side is a connection that does not leave the process, on which the caller is
// told; no other header of a request than that above gets there. All of HTTP is for people: whoever may ask
// for AdminService.GetInfo. The address on loopback has no TLS and so knows nobody.
// It serves /metrics; and where the configuration gives a role to the member "viewer",
// the page and what it reads (GET), to everybody on this machine, as that viewer. It never
// changes anything.
//
// # What happens to a call
//
//  1. It becomes a visit before its message is read, gets its deadline, and is
//     counted: a caller with too many open calls, or with too many that are no streams, gets no more.
//  2. What panics further in is logged, and is an answer as any other.
//  3. The bucket of the caller has a token, or the call is refused for a while.
//  4. The person for whom it is takes the caller's place, and Rules.MayCall decides. What is in no rule is denied, also to root.
//  5. The decision is recorded when it is no, or when the method changes something;
//     what can not be recorded is denied. The service denies by objects and locations:
//     that is recorded here, too, unless it has done so. Reading what one may
//     read is not recorded, and of the conversation with an agent only its begin: what
//     it then says carries on what was recorded when it was asked for. Refusals
//     of 3 are no decisions on rights, and are counted only. A caller that is denied a thousand times is held up as in 3.
//
// # Promises
//
// Concurrency: a Door's methods may be called from many goroutines. Crowds have sizes:
// connections of a uid, an address, a certificate, and of all; open calls and calls per
// second of a caller; bytes of headers. What says nothing, or says it slowly, loses its
// connection in ten seconds, and half a minute when it stops in the middle of a frame.
// Root and who runs the service do not count towards the whole of a
// socket, so nobody can keep them out. A connection by certificate ends when
// the certificate does. Nothing is kept: after a crash the next start removes the socket
// that was left, if nobody answers there, and never any other file.
//
// What a caller may do to an object is left to the service, what the rules are to
// access, the certificates to trust, and to remember decisions to audit.
//
// TestEveryRoute walks all routes with everybody who should not get in,
// TestIdleConnections and TestSlowly are those who come to stay, TestForgery tells
// lies, and TestAudit counts records.
package server
