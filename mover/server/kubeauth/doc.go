// Package kubeauth asks an API server what the service has to know of a cluster: whose a token is
// with which an agent joins, and it has the pin of the service written where agents see it.
//
// A [Client] speaks HTTP and JSON, as documented, and knows two calls; no more is needed here. A
// [Voucher] believes what the server says of a token only when all of it is right: that it is
// good, for our audience, of the one ServiceAccount, and bound to a pod on a node. Everything
// else is of kind mover.ErrPermission, and a server that can not be asked of kind
// mover.ErrTransient: then nobody joins, and who wants to tries again.
//
// Both may be used from many goroutines. Nothing is remembered, so a token that was revoked is
// not believed a moment later. TestVoucher has the table of who is believed, FuzzVoucher that
// nobody else is.
package kubeauth
