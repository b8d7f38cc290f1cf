// Package api is the edge between datamove and the callers of its service: the
// translation of errors, the client, and the JSON side over HTTP. The messages and
// methods themselves are in datamove/v1 and datamove/agent/v1, generated from the
// .proto files beside them. The comments there are the contract.
//
// Its words: an error was said by the service when it carries an ErrorInfo of our
// domain; all others come from the way there, and tell nothing about what the
// service has done. A [Client] is a connection with the public services on it.
// A [Gateway] turns HTTP requests into calls, by the routes of http.yaml.
//
// Promises:
//
//   - A kind of error that leaves the service is the same kind at the caller, with
//     the same sentence, over gRPC ([ToStatus], [FromStatus]) and over HTTP (datamove.v1.Error).
//   - What may be repeated is repeated while the service is away: methods that
//     say so in their .proto, and, by [Once] and [Client.Submit], those that have an
//     idempotency key. Nothing else is ever sent twice.
//   - [Client.Wait] outlives restarts of the service.
//   - Nothing from outside is without a bound: messages, bodies, sentences, names,
//     and the time that a slow peer may take. How many connections there are is for
//     the listener to bound.
//   - A Client and a Gateway may be used from many goroutines. Neither keeps
//     anything that a crash could lose.
//
// The service decides which caller may call what; a Gateway passes on what its Metadata
// option says about the caller, and nothing that a caller can make up.
//
// # Versions
//
// datamove.v1 never breaks: what a client of any v1 sends, every later v1
// understands, in protobuf and in JSON. Messages and methods are only added; fields keep their
// numbers, names and types. `make lint` compares the .proto files with
// released.binpb, the API as it was last released; make api-release renews that.
// What can not be done this way becomes datamove.v2, beside v1.
//
// A client ignores what it does not know in an answer, and treats a kind of error
// that it does not know by its gRPC code. The service refuses unknown fields in
// JSON, so that a misspelt one is not silently nothing.
//
// TestKinds walks every kind both ways, TestRoutes every public method over HTTP,
// TestSubmit and TestWait the life of a client beside a service that dies.
package api
