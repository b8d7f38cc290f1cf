package daemon

import (
	"context"

	"datamove.dev/mover"
	"datamove.dev/mover/server/kubeauth"
	"datamove.dev/mover/server/pki"
)

// pinKey is the key of the ConfigMap in which agents find the pin.
const pinKey = "pin"

// cluster is the Kubernetes cluster with nodes that may join; the zero value is none.
type cluster struct {
	vouch     func(context.Context, string) (string, error)
	publisher *kubeauth.Publisher
}

// cluster is what the configuration says of it.
func (h *host) cluster(authority *pki.Authority) (cluster, error) {
	k := h.live.config.Load().Join.Kubernetes
	if k == nil {
		return cluster{}, nil
	}
	if authority == nil {
		return cluster{}, mover.Misusef("join.kubernetes needs a tcp:// address (listen), or no node could join")
	}
	client, err := kubeauth.New(kubeauth.Options{Server: k.Server, CA: k.CA, Token: k.Token})
	if err != nil {
		return cluster{}, err
	}
	v, err := kubeauth.NewVoucher(client, k.ServiceAccount, k.Audience)
	if err != nil {
		return cluster{}, err
	}
	c := cluster{vouch: v.Node}
	if k.ConfigMap != "" {
		c.publisher = &kubeauth.Publisher{
			Client: client, ConfigMap: k.ConfigMap, Key: pinKey, Value: func() string { return authority.Pin().String() },
			Failed: func(err error) {
				h.log.Warn("agents can not see the pin of this service, will try again", "config map", k.ConfigMap, "err", err)
			},
		}
	}
	return c, nil
}

// parts keep the pin where agents see it.
func (c cluster) parts() []*part {
	if c.publisher == nil {
		return nil
	}
	return []*part{until("pin", c.publisher.Run)}
}
