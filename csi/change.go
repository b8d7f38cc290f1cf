package csi

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
)

// ControllerExpandVolume gives a volume more room. Pods that have it have more at once.
func (d *Driver) ControllerExpandVolume(ctx context.Context, q *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	r, done, err := d.marked(ctx, q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer done()
	if q.GetCapacityRange() == nil {
		return nil, fmt.Errorf("%w: the capacity is missing", mover.ErrUsage)
	}
	bytes, err := capacity(q.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if limit := q.GetCapacityRange().GetLimitBytes(); limit > 0 && r.Bytes > limit {
		return nil, status.Errorf(codes.OutOfRange, "it has %d bytes, and a volume never becomes smaller", r.Bytes)
	}
	id, spec, err := d.known(r.ID)
	if err != nil {
		return nil, err
	}
	if r, err = d.Files.Expand(ctx, spec, id, bytes); err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.Bytes, NodeExpansionRequired: false}, nil
}

// ControllerModifyVolume gives a volume other parameters.
func (d *Driver) ControllerModifyVolume(ctx context.Context, q *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	r, done, err := d.marked(ctx, q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := r.Parameters.Modified(q.GetMutableParameters())
	if err != nil {
		return nil, err
	}
	id, spec, err := d.known(r.ID)
	if err != nil {
		return nil, err
	}
	_, err = d.Files.Modify(ctx, spec, id, p)
	return &csi.ControllerModifyVolumeResponse{}, err
}

// marked finds a volume and marks it as being worked on: what its record says stays so until done.
func (d *Driver) marked(ctx context.Context, text string) (r volumestore.Record, done func(), err error) {
	if done, err = d.volumes.begin(text, "another call"); err != nil {
		return r, nil, err
	}
	if r, err = d.find(ctx, text); err != nil {
		done()
	}
	return r, done, err
}
