package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"datamove.dev/bench/hardware"
	"datamove.dev/lustre"
	"datamove.dev/lustre/detect"
	"datamove.dev/mover"
)

// ofOSTs measures each OST of the Lustre that a directory is on, alone: a file that lies on no other one.
func ofOSTs(ctx context.Context, o hardware.Options, dir string) (all []hardware.Ceiling, err error) {
	h, err := detect.Open(dir, detect.Options{})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if h.System.Layout == nil {
		return nil, fmt.Errorf("--osts %s: %w", mover.Printable(dir), h.System.Lack(lustre.AskLayout))
	}
	return eachOST(ctx, o, dir, h.FD(), h.System.Layout)
}

func eachOST(ctx context.Context, o hardware.Options, dir string, fd int, layouts lustre.Layouts) (all []hardware.Ceiling, err error) {
	cluster, err := layouts.Cluster(ctx, fd)
	if err != nil {
		return nil, err
	}
	if len(cluster.OSTs) == 0 {
		return nil, fmt.Errorf("%w: --osts %s: this file system has no OSTs; measure it as a --dir", mover.ErrUnsupported, mover.Printable(dir))
	}
	base, err := os.MkdirTemp(dir, "datamove-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	for _, t := range cluster.OSTs {
		own := filepath.Join(base, fmt.Sprintf("ost%04d", t.Index))
		if err := onOST(ctx, own, t.Index, layouts); err != nil {
			return nil, fmt.Errorf("OST %d: %w", t.Index, err)
		}
		o := o
		o.Dir, o.Files = own, 1
		measured, err := hardware.Disk(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("OST %d: %w", t.Index, err)
		}
		for _, c := range measured {
			if what, ok := strings.CutPrefix(c.Name, "disk."); ok {
				c.Name = fmt.Sprintf("ost%04d.%s", t.Index, what)
				all = append(all, c)
			}
		}
	}
	return all, nil
}

// onOST makes a directory in which new files lie on one OST.
func onOST(ctx context.Context, dir string, index int, layouts lustre.Layouts) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return layouts.SetDefault(ctx, int(f.Fd()), lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, StripeCount: 1, FirstTarget: index}}})
}
