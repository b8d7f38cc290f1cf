package fsclient

import (
	"context"

	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
)

type holding struct {
	Spec    volumestore.Spec
	Node    string
	ID      volume.ID
	Target  string
	Holding volumestore.Holding
}

// Hold has a node hold a volume for a target, and returns the other nodes that do.
func (f *Files) Hold(ctx context.Context, s volumestore.Spec, node string, id volume.ID, target string) (others []volumestore.Holder, err error) {
	return others, f.call(ctx, s.Name, "hold", holding{Spec: s, Node: node, ID: id, Target: target}, &others)
}

// Held returns what a node holds, and says that it lives.
func (f *Files) Held(ctx context.Context, s volumestore.Spec, node string) (all []volumestore.Holding, err error) {
	return all, f.call(ctx, s.Name, "held", holding{Spec: s, Node: node}, &all)
}

// LetGo has a node hold something no more.
func (f *Files) LetGo(ctx context.Context, s volumestore.Spec, node string, h volumestore.Holding) error {
	return f.call(ctx, s.Name, "let go", holding{Spec: s, Node: node, Holding: h}, nil)
}

func hold(ctx context.Context, q holding) ([]volumestore.Holder, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) ([]volumestore.Holder, error) { return b.Hold(ctx, q.Node, q.ID, q.Target) })
}

func held(ctx context.Context, q holding) ([]volumestore.Holding, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) ([]volumestore.Holding, error) { return b.Held(ctx, q.Node) })
}

func letGo(ctx context.Context, q holding) (struct{}, error) {
	return on(ctx, q.Spec, func(b *volumestore.Base) (struct{}, error) { return struct{}{}, b.LetGo(ctx, q.Node, q.Holding) })
}
