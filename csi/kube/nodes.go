package kube

import (
	"context"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"datamove.dev/csi/nodeproxy"
)

// portName is the port of a driver's pod that the controller asks.
const portName = "relay"

// cached is "what you have seen last": the API server need not ask its storage.
var cached = metav1.ListOptions{ResourceVersion: "0"}

// Nodes returns all nodes of the cluster, and where the drivers among the pods that a selector
// finds in this namespace answer: on their port called relay.
func (c *Cluster) Nodes(ctx context.Context, selector string) ([]nodeproxy.Node, error) {
	pods, err := c.core.Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if address := answers(p); address != "" {
			addresses[p.Spec.NodeName] = address
		}
	}
	// What was on a node that is not there counts as gone: so this is asked of the storage itself.
	nodes, err := c.core.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]nodeproxy.Node, len(nodes.Items))
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		all[i] = nodeproxy.Node{Name: name, Address: addresses[name]}
	}
	return all, nil
}

// answers is where the driver in a pod does; "" is nowhere.
func answers(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" {
		return ""
	}
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.Name == portName {
				return net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))
			}
		}
	}
	return ""
}
