package nodeproxy

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/mover"
)

// Node is one of the cluster.
type Node struct {
	Name    string
	Address string // HOST:PORT of its driver; "" where none runs now
}

// Clients asks the drivers of nodes.
type Clients struct {
	// Nodes returns all nodes of the cluster, also those without a driver: what was on a node that is not
	// among them is gone with it.
	Nodes func(context.Context) ([]Node, error)
	Keys  Keys
}

// All returns all nodes of the cluster.
func (f *Clients) All(ctx context.Context) ([]Node, error) {
	all, err := f.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: the nodes of the cluster are not known: %w", mover.ErrUnreachable, err)
	}
	return all, nil
}

// limit is how long a call may take: a node that froze says nothing.
const limit = time.Minute

// Ask makes one call of gRPC at the driver of a node. A connection is made for each: there are few, and none is kept
// to a driver that is gone.
func (f *Clients) Ask(ctx context.Context, n Node, method string, request, reply any) error {
	if n.Address == "" {
		return fmt.Errorf("%w: no driver runs on node %s", mover.ErrUnreachable, mover.Printable(n.Name))
	}
	keys, err := f.Keys.Controller()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+n.Address, grpc.WithTransportCredentials(keys))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = conn.Invoke(ctx, method, request, reply)
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Aborted {
		return status.Errorf(code, "node %s: %s", mover.Printable(n.Name), status.Convert(err).Message())
	}
	return err
}
