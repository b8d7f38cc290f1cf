package csi

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// access says for each mode if several nodes can have a volume at once, and if it is only read.
var access = map[csi.VolumeCapability_AccessMode_Mode]struct{ many, read bool }{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        {false, false},
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   {false, true},
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: {false, false},
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  {false, false},
	csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:    {true, true},
	csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER:  {true, false},
	csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:   {true, false},
}

// usable reports why volumes of a kind can not be used as capabilities say. A dataset is mounted read-only whatever they say.
func usable(k volume.Kind, wanted []*csi.VolumeCapability) error {
	if len(wanted) == 0 {
		return fmt.Errorf("%w: volume capabilities are missing", mover.ErrUsage)
	}
	for _, c := range wanted {
		mode := c.GetAccessMode().GetMode()
		a, known := access[mode]
		switch {
		case c.GetBlock() != nil:
			return fmt.Errorf("%w: a volume of this driver is a directory, and no block device: volumeMode has to be Filesystem", mover.ErrUsage)
		case c.GetMount() == nil:
			return fmt.Errorf("%w: a capability without an access type", mover.ErrUsage)
		case !known:
			return fmt.Errorf("%w: access mode %s", mover.ErrUsage, mode)
		case k == volume.Scratch && a.many:
			return fmt.Errorf("%w: scratch is on one node: access mode %s is for several", mover.ErrUsage, mode)
		}
		if _, err := volume.ParseMounting(c.GetMount().GetMountFlags()); err != nil {
			return err
		}
	}
	return nil
}
