package volume

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/mover/location"
)

func setFileSystem(p *Parameters, s string) error {
	p.FileSystem = s
	return ValidName(s)
}

// setMode takes permission bits and the set-group-ID bit, which hands the group on to what is
// made in the directory. The set-user-ID bit is refused: it has no use on a directory.
func setMode(p *Parameters, s string) error {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n&^0o3777 != 0 {
		return errors.New("a mode is octal, up to 3777")
	}
	p.Mode = uint32(n)
	return nil
}

func setID(id *uint32, s string) error {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == math.MaxUint32 { // -1 is "as it is" to chown(2)
		return errors.New("an ID is a number from 0 to 4294967294")
	}
	*id = uint32(n)
	return nil
}

func setFiles(p *Parameters, s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return errors.New("it is a number of files, from 1 on")
	}
	p.Quota.Files = n
	return nil
}

func setSoft(p *Parameters, s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 100 {
		return errors.New("it is a percentage from 1 to 100")
	}
	p.Quota.SoftPercent = n
	return nil
}

func setUse(p *Parameters, s string) error {
	p.Place.Use = lustre.Use(s)
	if !slices.Contains(lustre.Uses, p.Place.Use) {
		return errors.New("there are general, checkpoint, dataset, small and shared")
	}
	return nil
}

func setStripeCount(p *Parameters, s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < -1 || n == 0 || n > lustre.MaxStripes {
		return fmt.Errorf("it is a number from 1 to %d, or -1 for all OSTs", lustre.MaxStripes)
	}
	p.Place.StripeCount = n
	return nil
}

func setStripeBytes(p *Parameters, s string) error {
	n, err := parseSize(s)
	if err != nil || n < lustre.StripeUnit || n%lustre.StripeUnit != 0 || n > lustre.MaxStripeBytes {
		return errors.New("it is a multiple of 64Ki below 4Gi")
	}
	p.Place.StripeBytes = n
	return nil
}

func setOSTPool(p *Parameters, s string) error {
	p.Place.OSTPool = s
	if s == "" {
		return errors.New("it names a pool")
	}
	return lustre.ValidPool(s)
}

func setOnDelete(p *Parameters, s string) error {
	p.OnDelete = OnDelete(s)
	if !slices.Contains([]OnDelete{Remove, Retain, Archive}, p.OnDelete) {
		return errors.New("there are delete, retain and archive")
	}
	return nil
}

func setArchiveTo(p *Parameters, s string) error {
	p.ArchiveTo = s
	return onTier(s)
}

func setDuration(d *time.Duration, s string, zero bool) error {
	n, err := time.ParseDuration(s)
	if err != nil || n < 0 || n == 0 && !zero {
		return errors.New("it is a time as 90s, 30m or 24h")
	}
	*d = n
	return nil
}

func setTier(p *Parameters, s string) error {
	p.Source.Tier = s
	return onTier(s + ":x")
}

// latest is the version of a dataset that is the newest one whenever a pod starts.
const latest = "@latest"

func setDataset(p *Parameters, s string) error {
	s, p.Source.Latest = strings.CutSuffix(s, latest)
	return p.hold("dataset:" + s)
}

// setSource takes what the mover can stage. A path of the machine is refused: the author of a
// StorageClass or a pod has no rights on paths of nodes.
func setSource(p *Parameters, s string) error {
	l, err := location.Parse(s)
	switch {
	case err != nil:
		return err
	case l.IsPath():
		return errors.New("a path of the machine can not be mounted: name a TIER:path, an s3:// or a dataset")
	}
	return p.hold(s)
}

func (p *Parameters) hold(source string) error {
	if p.Source.Location != "" {
		return errors.New("dataset and source can not be given both")
	}
	p.Source.Location = source
	_, err := location.Parse(source)
	return err
}

// onTier reports whether s is TIER:path.
func onTier(s string) error {
	l, err := location.Parse(s)
	if err == nil && !l.InTier() {
		err = errors.New("it has to be TIER:path, of a tier in the mover's configuration")
	}
	return err
}

// parseSize reads a quantity of bytes as people write it in Kubernetes: a whole number with Ki, Mi, Gi
// or none. The rest of what Kubernetes knows (decimal, exponents) is for capacities, which
// it reads itself.
func parseSize(s string) (int64, error) {
	unit := int64(1)
	for i, suffix := range []string{"Ki", "Mi", "Gi"} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = rest, 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, errors.New("it is no size")
	}
	return n * unit, nil
}
