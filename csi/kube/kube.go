// Package kube is what the driver asks of Kubernetes, and says there.
//
// It asks which nodes there are and where their drivers answer ([Cluster.Nodes]), and which claims are of
// datasets ([Cluster.Claims]). It says what becomes of volumes in events of pods, claims and nodes ([Cluster.Tell]), and what
// is staged for a claim in its annotations ([Cluster.Annotate]). A driver without Kubernetes does without.
//
// What is asked for is little on purpose: a node's account may make events and nothing else.
package kube

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// Cluster is a Kubernetes.
type Cluster struct {
	core      typed.CoreV1Interface
	leases    coordination.LeasesGetter
	namespace string // of the driver's own pod
	events    record.EventBroadcaster
	recorder  record.EventRecorder
}

// Options say where a Kubernetes is, and which driver and node ask it.
type Options struct {
	Config    string // a kubeconfig; "" is the one that this process is a pod of
	Driver    string // name of the CSI driver
	Node      string // "" for a controller
	Namespace string // of the driver's pods; "" is that of this one
}

// Available reports whether this process is a pod.
func Available() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// namespaceFile is where a pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Open makes a Cluster. It asks no server yet.
func Open(o Options) (*Cluster, error) {
	config, err := rest.InClusterConfig()
	if o.Config != "" {
		config, err = clientcmd.BuildConfigFromFlags("", o.Config)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: Kubernetes: %w", mover.ErrUsage, err)
	}
	if o.Namespace == "" && o.Config == "" {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, fmt.Errorf("the namespace of this pod: %w", err)
		}
		o.Namespace = strings.TrimSpace(string(text))
	}
	return open(config, o)
}

// protobuf is how objects are sent: that is smaller and faster than JSON.
const protobuf = "application/vnd.kubernetes.protobuf"

func open(config *rest.Config, o Options) (*Cluster, error) {
	config.UserAgent = o.Driver
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf+",application/json"
	core, err := typed.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("%w: Kubernetes: %w", mover.ErrUsage, err)
	}
	leases, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("%w: Kubernetes: %w", mover.ErrUsage, err)
	}
	c := &Cluster{core: core, leases: leases, namespace: o.Namespace, events: record.NewBroadcaster()}
	c.events.StartRecordingToSink(&typed.EventSinkImpl{Interface: core.Events("")})
	c.recorder = c.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: o.Driver, Host: o.Node})
	return c, nil
}

// Close sends what is to be sent still.
func (c *Cluster) Close() { c.events.Shutdown() }

// About is what an event is about.
type About struct{ Kind, Namespace, Name, UID string }

// OfPod is a pod.
func OfPod(p volume.Pod) About { return About{"Pod", p.Namespace, p.Name, p.UID} }

// OfNode is a node. Its events have its name for a UID, as those of the kubelet.
func OfNode(name string) About { return About{"Node", "", name, name} }

// Tell makes an event, in the background: it returns at once, and the same one again is counted. An About without a name is told nothing.
func (c *Cluster) Tell(_ context.Context, a About, bad bool, reason, message string) {
	if a.Name == "" {
		return
	}
	kind := corev1.EventTypeNormal
	if bad {
		kind = corev1.EventTypeWarning
	}
	c.recorder.Event(&corev1.ObjectReference{Kind: a.Kind, APIVersion: "v1", Namespace: a.Namespace, Name: a.Name, UID: types.UID(a.UID)}, kind, reason, short(message))
}

// short is what an event may have of a message.
func short(s string) string { return cut(mover.Printable(s), 1000) }

// cut is the beginning of a text that has more bytes.
func cut(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
