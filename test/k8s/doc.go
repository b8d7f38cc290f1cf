// Package k8s runs a real Kubernetes for tests: kube-apiserver, kube-controller-manager, kube-scheduler, etcd, and nodes with a
// kubelet, containerd and runc each.
//
// A [Cluster] is a tree of processes in namespaces of its own. The control plane has one of processes, mounts and
// network; each node has one of mounts and network in it, joined by a bridge: so /var/lib/kubelet, ports and scratch of
// two nodes are two, as on two machines. Pods have addresses of their own, and reach the API server at
// the address of its Service (10.96.0.1) without a kube-proxy, because that is an address of the bridge's side. There is no DNS.
//
// Everything ends when the first process does, which is killed with the test; nothing is left on the machine.
//
// The programs are built by programs/build from modules with their versions pinned; test/setup k8s does that, and installs
// the packages of Debian that nodes need. [Images] are made of static programs, without a daemon.
package k8s
