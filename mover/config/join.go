package config

import (
	"errors"
	"fmt"
	"strings"

	"datamove.dev/mover"
)

// Join names the authorities that confirm the node of an agent, beside tokens of the service itself.
type Join struct {
	Kubernetes *Kubernetes `koanf:"kubernetes"` // the cluster with the pods of agents; nil is none
}

// Kubernetes is a cluster with nodes that may join.
type Kubernetes struct {
	ServiceAccount string `koanf:"service_account"` // service account of agents
	ConfigMap      string `koanf:"config_map"`      // config map to which the pin of the service is written; "" is none
	Audience       string `koanf:"audience"`        // audience of the tokens of agents; "" is datamove
	Server         string `koanf:"server"`          // URL of the API server; "" is that of the pod
	CA             string `koanf:"ca"`              // file with the authority of its certificate; "" is that of the pod
	Token          string `koanf:"token"`           // file of mode 0600 with a token that may make TokenReviews; "" is that of the pod
}

var kubernetesRule = rule{
	keys: map[string]rule{
		"service_account": {check: namespaced},
		"config_map":      {check: namespaced},
		"audience":        {check: word},
		"server":          {check: apiServer},
		"ca":              {check: absolute},
		"token":           {check: absolute},
	},
	need: []string{"service_account"},
}

var namespacedName = mover.Pattern(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)

func namespaced(s string) error {
	if !namespacedName().MatchString(s) {
		return fmt.Errorf("is %q; must be NAMESPACE/NAME, as Kubernetes has them", s)
	}
	return nil
}

// apiServer is where our token goes.
func apiServer(s string) error {
	if !strings.HasPrefix(s, "https://") {
		return errors.New("must be a URL like https://api.site:6443: a token goes there")
	}
	return endpoint(s)
}
