// Package kubeauth asks the API server of a cluster which node a join token belongs
// to. It also writes the pin of the service where agents read it.
//
// A [Client] speaks HTTP and JSON, as documented, and knows two calls; no more is needed here. A
// [Voucher] accepts a token only when the server confirms that it is good, for our
// audience, of the one ServiceAccount, and bound to a pod on a node. Everything
// else is of kind mover.ErrPermission. A server that can not be asked is of kind
// mover.ErrTransient: then no node joins, and its agent tries again.
//
// Both may be used from many goroutines. Nothing is remembered, so a token that was revoked is
// not believed a moment later. TestVoucher has the table of good and bad answers, FuzzVoucher shows
// that no other answer is believed.
package kubeauth
