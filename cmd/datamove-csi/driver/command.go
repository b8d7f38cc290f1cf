package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	"datamove.dev/csi"
	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/fsworker"
	"datamove.dev/csi/kube"
	"datamove.dev/csi/nodeproxy"
	"datamove.dev/mover"
	"datamove.dev/tiering/dataset/datasetclient"
)

// options are the command line.
type options struct {
	endpoint, mode, node, config string
	register, registerAs         string
	http                         string
	nodes, relay, keys           string
	kubeconfig, namespace        string
	limit                        time.Duration
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "datamove-csi",
		Short:         "the CSI driver " + csi.Name,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          none,
		RunE:          func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return mover.Usagef("%w", err) })
	f := c.Flags()
	f.StringVar(&o.endpoint, "endpoint", "unix:///csi/csi.sock", "socket that the driver answers on")
	f.StringVar(&o.mode, "mode", string(csi.All), "services that it has: all, controller or node")
	f.StringVar(&o.node, "node-id", os.Getenv("NODE_NAME"), "name of this node in Kubernetes")
	c.PersistentFlags().StringVar(&o.config, "config", "/etc/datamove/csi.yaml", "configuration of file systems and grants")
	f.StringVar(&o.register, "register", "", "directory where the kubelet looks for drivers (plugins_registry); \"\" leaves that to a node-driver-registrar")
	f.StringVar(&o.registerAs, "register-endpoint", "", "path of the socket as the kubelet sees it")
	f.StringVar(&o.http, "http", "", "address that answers /healthz, /readyz and /metrics, as :9808; \"\" is none")
	f.StringVar(&o.nodes, "nodes", "", "for mode controller: labels of the pods that are the drivers of nodes, in its own namespace; scratch is asked for there")
	f.StringVar(&o.relay, "relay", "", "for mode node: address where the controller asks for the scratch of this node, as :9809")
	f.StringVar(&o.keys, "relay-tls", "", "directory with tls.crt, tls.key and ca.crt, for --nodes and --relay")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach Kubernetes; \"\" is as a pod, or without it")
	f.StringVar(&o.namespace, "namespace", "", "of the driver's pods; \"\" is that of this pod")
	c.PersistentFlags().DurationVar(&o.limit, "call-limit", 20*time.Second, "time after which a file system counts as hung")
	c.AddCommand(o.trash())
	return c
}

// exitCode follows datamove: 130 interrupted, 2 for words that are wrong, 1 otherwise.
func exitCode(err error) int {
	switch {
	case errors.Is(err, context.Canceled):
		return 130
	case errors.Is(err, mover.ErrUsage):
		return 2
	}
	return 1
}

// wrong reports what does not go together on the command line.
func (o *options) wrong() error {
	mode := csi.Mode(o.mode)
	switch {
	case mode != csi.All && mode != csi.Controller && mode != csi.Node:
		return mover.Usagef("--mode is %q: it has to be all, controller or node", o.mode)
	case o.node == "" && mode != csi.Controller:
		return mover.Usagef("--node-id is missing")
	case o.register != "" && o.registerAs == "":
		return mover.Usagef("--register needs --register-endpoint: the kubelet may see the socket under another path")
	case o.nodes != "" && mode != csi.Controller:
		return mover.Usagef("--nodes is for --mode controller")
	case o.relay != "" && mode != csi.Node:
		return mover.Usagef("--relay is for --mode node")
	case (o.nodes != "" || o.relay != "") && o.keys == "":
		return mover.Usagef("--nodes and --relay need --relay-tls: each side shows a certificate to the other one")
	case !strings.HasPrefix(o.endpoint, "unix:///"):
		return mover.Usagef("--endpoint is %q: it has to be unix:///path", o.endpoint)
	}
	return nil
}

// read reads the configuration.
func (o *options) read() (*csi.Config, error) {
	text, err := os.ReadFile(o.config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	config, err := csi.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", o.config, err)
	}
	return config, nil
}

// driver makes what answers.
func (o *options) driver(log *slog.Logger) (*csi.Driver, *kube.Cluster, error) {
	if err := o.wrong(); err != nil {
		return nil, nil, err
	}
	config, err := o.read()
	if err != nil {
		return nil, nil, err
	}
	d := csi.Options{Config: config, Files: &fsclient.Files{Pool: &fsworker.Pool{Logger: log}, Limit: o.limit}, Mode: csi.Mode(o.mode), NodeID: o.node, Version: version, Logger: log}
	if config.Service != "" {
		d.Staging, d.Patience = o.staging(config.Service, d.Files), time.Minute
	}
	cluster, err := o.cluster()
	if err != nil {
		return nil, nil, err
	}
	if cluster != nil {
		d.Cluster = cluster
	}
	if o.keys != "" {
		if err := nodeproxy.Keys(o.keys).Check(); err != nil {
			return nil, nil, err
		}
	}
	if o.nodes != "" {
		if cluster == nil {
			return nil, nil, mover.Usagef("--nodes needs Kubernetes: this is no pod, and --kubeconfig is missing")
		}
		d.Fleet = &nodeproxy.Clients{Keys: nodeproxy.Keys(o.keys), Nodes: func(ctx context.Context) ([]nodeproxy.Node, error) { return cluster.Nodes(ctx, o.nodes) }}
	}
	return csi.New(d), cluster, nil
}

// heldFile is beside the socket: what datasets the node has for pods, for a time without the coordinator.
const heldFile = "held.json"

// staging is the mover; a node can be without its coordinator for a while.
func (o *options) staging(service string, f *fsclient.Files) csi.Staging {
	dial := func(ctx context.Context) (*api.Client, error) { return api.Dial(ctx, service, api.Options{}) }
	m := &datasetclient.Mover{Dial: dial, Node: o.node, Label: "csi-copy"}
	if csi.Mode(o.mode) == csi.Controller {
		return m
	}
	return &datasetclient.Away{Mover: m, File: filepath.Join(filepath.Dir(strings.TrimPrefix(o.endpoint, "unix://")), heldFile), Note: csi.Noting(f)}
}

// cluster is the Kubernetes that this is in; nil is none.
func (o *options) cluster() (*kube.Cluster, error) {
	if o.kubeconfig == "" && !kube.Available() {
		return nil, nil
	}
	return kube.Open(kube.Options{Config: o.kubeconfig, Driver: csi.Name, Node: o.node, Namespace: o.namespace})
}
