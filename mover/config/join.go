package config

import (
	"errors"
	"fmt"
	"strings"

	"datamove.dev/mover"
)

// Join names the authorities that confirm the node of an agent, beside tokens of the service itself.
type Join struct {
	Kubernetes *Kubernetes `koanf:"kubernetes"` // nil: none
}

// Kubernetes is a cluster with nodes that may join.
type Kubernetes struct {
	ServiceAccount string `koanf:"service_account"` // NAMESPACE/NAME of agents
	ConfigMap      string `koanf:"config_map"`      // NAMESPACE/NAME, to which the pin of the service is written; "" is nowhere
	Audience       string `koanf:"audience"`        // of their tokens; "" is datamove
	Server         string `koanf:"server"`          // https://host:port; "" and the following are those of a pod
	CA             string `koanf:"ca"`
	Token          string `koanf:"token"`
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
