// Package nodeproxy brings calls about what only one node has to the driver of that node.
//
// Scratch lies on the node that it was made on, and Kubernetes asks one controller for all of them. The
// driver of each node answers the controller service once more, on a port, for its scratch;
// the controller asks it there ([Clients]). So nodes need no rights in Kubernetes, and one provisioner is enough for
// all of them.
//
// Both sides show a certificate of one authority ([Keys]): the controller trusts a peer with the name
// [NodeName], a node one with [ControllerName]. Certificates are read anew for each connection, so that they can be
// exchanged under a running driver.
package nodeproxy
