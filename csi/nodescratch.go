package csi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"datamove.dev/csi/nodeproxy"
	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// RelayServer answers the controller about what only this node has, with the controller service.
func (d *Driver) RelayServer(keys nodeproxy.Keys) *grpc.Server {
	local := d.local()
	s := grpc.NewServer(grpc.UnaryInterceptor(local.Unary), grpc.Creds(keys.Node()))
	csi.RegisterControllerServer(s, local)
	return s
}

// local is a driver that has nothing but the scratch of this node.
func (d *Driver) local() *Driver {
	o, c := d.Options, *d.Config
	c.FileSystems, o.Config, o.Mode, o.Cluster = map[string]FileSystem{}, &c, All, nil // the controller knows the claims
	for name, f := range d.Config.FileSystems {
		if f.Use == volume.Scratch {
			c.FileSystems[name] = f
		}
	}
	l := New(o)
	l.removed, l.volumes = d.removed, d.volumes // one loop empties the trash, and a call that mounts a volume does not see it removed
	return l
}

// has reports whether a file system is this driver's to ask: a controller that reaches nodes has no scratch of its own.
func (d *Driver) has(name string) bool {
	return d.Fleet == nil || d.Config.FileSystems[name].Use != volume.Scratch
}

// elsewhere answers calls about what one node has: the driver there is asked. Calls that are done here are not answered.
func (d *Driver) elsewhere(ctx context.Context, request any, method string) (reply proto.Message, answered bool, err error) {
	if d.Fleet == nil {
		return nil, false, nil
	}
	ask := func(n nodeproxy.Node) error {
		reply, err = replyTo(method)
		if err == nil {
			err = d.Fleet.Ask(ctx, n, method, request, reply)
		}
		return err
	}
	switch q := request.(type) {
	case *csi.CreateVolumeRequest:
		if q.GetParameters()["type"] != string(volume.Scratch) {
			return nil, false, nil
		}
		if err = d.startable(q); err == nil {
			var names []string
			if names, err = d.nodesFor(ctx, q); err == nil {
				err = d.onOneOf(ctx, names, ask)
			}
		}
	case *csi.GetCapacityRequest:
		node, said := q.GetAccessibleTopology().GetSegments()[NodeTopology]
		if q.GetParameters()["type"] != string(volume.Scratch) || !said {
			return nil, false, nil
		}
		err = d.onOneOf(ctx, []string{node}, ask)
	default:
		id, parseErr := volume.ParseID(subject(request))
		if parseErr != nil || d.has(id.FileSystem) {
			return nil, false, nil
		}
		err = d.onTheNodeOf(ctx, id, method, ask)
		if status.Code(err) == codes.OK && reply == nil {
			reply, err = replyTo(method)
		}
	}
	return reply, true, err
}

// startable reports why no node can begin a volume with what a request names: nodes know of no file system but their scratch. What else is wrong
// with the request the node says.
func (d *Driver) startable(q *csi.CreateVolumeRequest) error {
	p, err := volume.ParseParameters(q.GetParameters())
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	name, err := d.Config.pick(p)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	_, err = d.source(name, q.GetVolumeContentSource())
	return err
}

// subject is the volume or snapshot that a request is about; "" is none.
func subject(request any) string {
	if q, ok := request.(interface{ GetVolumeId() string }); ok {
		return q.GetVolumeId()
	}
	if q, ok := request.(interface{ GetSnapshotId() string }); ok && q.GetSnapshotId() != "" {
		return q.GetSnapshotId()
	}
	if q, ok := request.(interface{ GetSourceVolumeId() string }); ok {
		return q.GetSourceVolumeId()
	}
	return ""
}

// replyTo makes the empty reply of a method of gRPC: /csi.v1.Controller/DeleteVolume.
func replyTo(method string) (proto.Message, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	called, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%w: %s is no method", mover.ErrUnsupported, name)
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(called.Output().FullName())
	if err != nil {
		return nil, err
	}
	return t.New().Interface(), nil
}

// nodesOf are the nodes that a topology is satisfied with, the preferred ones first.
func nodesOf(t *csi.TopologyRequirement) (names []string) {
	for _, one := range slices.Concat(t.GetPreferred(), t.GetRequisite()) {
		if node := one.GetSegments()[NodeTopology]; node != "" && !slices.Contains(names, node) {
			names = append(names, node)
		}
	}
	return names
}

// selectedNode is the annotation of a claim by which the scheduler says where its volume is to be made.
const selectedNode = "volume.kubernetes.io/selected-node"

// nodesFor are the nodes on which scratch may be made: those of the request, and what is made of a snapshot or a volume only
// where that is. When that is another one, the scheduler hears that there is no room, and tries again; because it would choose the same
// node for ever, the claim has the right one from then on.
func (d *Driver) nodesFor(ctx context.Context, q *csi.CreateVolumeRequest) ([]string, error) {
	names, source := nodesOf(q.GetAccessibilityRequirements()), q.GetVolumeContentSource()
	id, err := volume.ParseID(cmp.Or(source.GetSnapshot().GetSnapshotId(), source.GetVolume().GetVolumeId()))
	if err != nil || d.has(id.FileSystem) || len(names) == 0 {
		return names, nil // what is wrong with it the driver of the node says
	}
	all, err := d.Fleet.All(ctx)
	if err != nil {
		return nil, err
	}
	var there []string
	for _, n := range all {
		if volume.TagOf(n.Name) == id.Tag() {
			there = append(there, n.Name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(there, name) })
	switch {
	case len(there) == 0:
		return nil, goneWithNode(id)
	case len(names) == 0:
		d.move(ctx, q.GetParameters(), there[0])
		return nil, status.Errorf(codes.ResourceExhausted, "%s is on node %s, and what is made of it has to be there", id, strings.Join(there, " or "))
	}
	return names, nil
}

// move says in the claim of a volume where that is to be made.
func (d *Driver) move(ctx context.Context, parameters map[string]string, node string) {
	p, err := volume.ParseParameters(parameters)
	if err != nil || d.Cluster == nil || p.For.Name == "" {
		return
	}
	if err := d.Cluster.Annotate(ctx, p.For, map[string]string{selectedNode: node}); err != nil {
		d.Logger.WarnContext(ctx, "a claim can not be moved to the node of what it is made of", "claim", p.For, "node", node, "err", err)
	}
}

// goneWithNode is that of what only a node had.
func goneWithNode(id volume.ID) error {
	return fmt.Errorf("%w: %s was on a node that the cluster has no more", mover.ErrNotExist, id)
}

// onOneOf asks nodes in their order, until one is not full.
func (d *Driver) onOneOf(ctx context.Context, names []string, ask func(nodeproxy.Node) error) error {
	if len(names) == 0 {
		return fmt.Errorf("%w: scratch is made on the node of its pod: the StorageClass needs volumeBindingMode WaitForFirstConsumer", mover.ErrUsage)
	}
	all, err := d.Fleet.All(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(n nodeproxy.Node) bool { return n.Name == name })
		if i < 0 {
			err = fmt.Errorf("%w: the cluster has no node %s", mover.ErrFull, mover.Printable(name))
			continue
		}
		if err = ask(all[i]); status.Code(err) != codes.ResourceExhausted {
			return err
		}
	}
	return err
}

// onTheNodeOf asks the node that has what an ID names. What was on a node that the cluster has no more is gone with it.
func (d *Driver) onTheNodeOf(ctx context.Context, id volume.ID, method string, ask func(nodeproxy.Node) error) error {
	all, err := d.Fleet.All(ctx)
	if err != nil {
		return err
	}
	gone := goneWithNode(id)
	err = gone
	for _, n := range all {
		if volume.TagOf(n.Name) != id.Tag() {
			continue
		}
		if err = ask(n); status.Code(err) != codes.NotFound { // else another node has the same tag
			return err
		}
	}
	switch {
	case err == gone && strings.Contains(method, "/Delete"):
		d.Logger.WarnContext(ctx, "it counts as deleted", "why", gone)
		return nil
	case err == gone && strings.Contains(method, "/List"):
		return nil // of what is gone a list has nothing
	}
	return err
}

// everywhere adds what the drivers of all nodes answer to a question. One that does not
// answer is an error, because a list without its volumes would say that they are gone.
func everywhere[R proto.Message, E any](ctx context.Context, d *Driver, method string, request proto.Message, here []E, of func(R) []E) ([]E, error) {
	there, silent, err := askNodes(ctx, d, method, request, of)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(silent)) {
		return nil, silent[name]
	}
	return append(here, there...), nil
}

// nodesAtOnce is how many drivers of nodes are asked at once.
const nodesAtOnce = 64

// askNodes asks the drivers of all nodes a question. It returns what they answer, and of nodes that do not, why. Nodes without a
// driver have nothing.
func askNodes[R proto.Message, E any](ctx context.Context, d *Driver, method string, request proto.Message, of func(R) []E) (all []E, silent map[string]error, err error) {
	if d.Fleet == nil {
		return nil, nil, nil
	}
	fleet, err := d.Fleet.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	silent = map[string]error{}
	var mu sync.Mutex // of all and silent
	var asked sync.WaitGroup
	slots := make(chan struct{}, nodesAtOnce)
	for _, n := range fleet {
		if n.Address == "" {
			continue
		}
		slots <- struct{}{}
		asked.Go(func() {
			defer func() { <-slots }()
			reply, err := replyTo(method)
			if err == nil {
				err = d.Fleet.Ask(ctx, n, method, request, reply)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent[n.Name] = err
				return
			}
			all = append(all, of(reply.(R))...)
		})
	}
	asked.Wait()
	return all, silent, nil
}
