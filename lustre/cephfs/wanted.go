package cephfs

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// MaxObjectBytes is the largest object that OSDs take (osd_max_object_size, if the site
// did not change it). A larger one is accepted in a layout, and what is written behind
// that can not be stored.
const MaxObjectBytes = 128 << 20

// objectBytes is the size of objects where nothing else is said (file_layout_t's default).
const objectBytes = 4 << 20

// wanted translates a layout into what a CephFS can be told; 0 and "" are left as the
// directory has them. What it has no words for is an errors.ErrUnsupported.
func wanted(l lustre.Layout) (striping, error) {
	if l.IsZero() {
		return striping{}, nil
	}
	if err := expressible(&l); err != nil {
		return striping{}, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	c := &l.Components[0]
	s := striping{unit: c.StripeBytes, count: int64(c.StripeCount), object: c.ObjectBytes, pool: c.Pool, namespace: c.PoolNamespace}
	switch {
	case s.unit > 0 && s.object == 0:
		s.object = (max(s.unit, objectBytes) + s.unit - 1) / s.unit * s.unit
	case s.object > 0 && s.unit == 0:
		s.unit = s.object
		if s.object%objectBytes == 0 {
			s.unit = objectBytes
		}
	}
	if err := s.possible(); err != nil {
		return striping{}, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return s, nil
}

// expressible reports what of a layout a CephFS has nothing for.
func expressible(l *lustre.Layout) error {
	if l.Foreign != nil || len(l.Opaque) > 0 || len(l.Components) != 1 || l.Mirrored != lustre.NotMirrored {
		return errors.New("a file of a CephFS has one layout from its beginning to its end")
	}
	c := &l.Components[0]
	switch {
	case c.Start != 0 || c.End != lustre.EOF:
		return errors.New("a layout of a CephFS is from 0 to the end of the file")
	case c.Pattern != 0 && c.Pattern != lustre.RAID0, c.Flags&^lustre.Initialised != 0, c.Foreign != nil:
		return fmt.Errorf("pattern %v with flags %#x: a CephFS has nothing but stripes that go round", c.Pattern, uint64(c.Flags))
	case c.FirstTarget > 0 || len(c.Objects) > 0:
		return errors.New("a CephFS chooses the places of objects by itself")
	case c.StripeCount == lustre.AllTargets:
		return errors.New("how many OSDs a pool of a CephFS has is not known to its clients, and its objects go to all of them whatever is asked for: say how many stripes")
	}
	return nil
}

// possible reports what a CephFS would refuse, and what it would take and not survive.
func (s *striping) possible() error {
	switch {
	case s.unit < 0 || s.unit%lustre.StripeUnit != 0 || s.object < 0 || s.object%lustre.StripeUnit != 0:
		return fmt.Errorf("stripes of %d and objects of %d bytes: both are multiples of %d KiB", s.unit, s.object, lustre.StripeUnit>>10)
	case s.object > MaxObjectBytes:
		return fmt.Errorf("objects of %d bytes: OSDs take up to %d (osd_max_object_size), and what is written behind that can not be stored", s.object, MaxObjectBytes)
	case s.unit > 0 && s.object%s.unit != 0:
		return fmt.Errorf("objects of %d bytes are no multiple of the stripe size of %d", s.object, s.unit)
	case s.count < 0 || s.count > lustre.MaxStripes:
		return fmt.Errorf("%d stripes: it is 1 to %d here, though CephFS would take any number", s.count, lustre.MaxStripes)
	case s.namespace != "" && (s.pool == "" || strings.ContainsRune(s.namespace, 0)):
		return fmt.Errorf("namespace %q of pool %q: it is named with its pool", s.namespace, s.pool)
	}
	return plainPool(s.pool)
}

// plainPool reports whether a layout can name a pool: the metadata server reads these
// bytes, and takes a number for that of a pool.
func plainPool(name string) error {
	number := name != ""
	for _, b := range []byte(name) {
		digit := b >= '0' && b <= '9'
		number = number && digit
		if !digit && (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && b != '_' && b != '-' && b != '.' {
			return fmt.Errorf("pool %q: a layout names a pool by letters, digits, '_', '-' and '.'", name)
		}
	}
	if number {
		return fmt.Errorf("pool %q: a layout takes a number for that of a pool, and not for its name", name)
	}
	return nil
}

// request is what the attribute is set to, "" for nothing.
func (s *striping) request() string {
	var fields []string
	for _, f := range []struct {
		name  string
		value int64
	}{{"stripe_unit", s.unit}, {"stripe_count", s.count}, {"object_size", s.object}} {
		if f.value > 0 {
			fields = append(fields, fmt.Sprintf("%s=%d", f.name, f.value))
		}
	}
	if s.pool != "" {
		fields = append(fields, "pool="+s.pool)
	}
	return strings.Join(fields, " ")
}

// notApplied is an error of which nothing but the layout is lost.
type notApplied struct{ error }

func (n notApplied) Is(target error) bool { return target == lustre.ErrNotApplied }
func (n notApplied) Unwrap() error        { return n.error }

// refusals are the errors of a layout that is not taken.
var refusals = map[error]string{
	unix.EINVAL:    "there is no such pool in this file system (ceph fs add_data_pool FS POOL), its numbers do not fit, or the file was written already",
	unix.ENOTEMPTY: "the file was written already: a layout is set before the first byte, so it has to be copied into a new one",
	unix.EACCES:    noRight,
	unix.EPERM:     noRight,
}

// apply sets what s says of a file or directory, and reads it again.
func (s *striping) apply(fd int, name string) error {
	if *s == (striping{}) {
		return nil
	}
	err := set(fd, name, s.request())
	if err == nil && s.pool != "" { // the request leaves the one of the pool before
		if s.namespace == "" {
			err = unset(fd, name+".pool_namespace")
		} else {
			err = set(fd, name+".pool_namespace", s.namespace)
		}
	}
	if err != nil {
		text := failed("set the layout ("+s.request()+")", fd, err, refusals)
		for refused := range refusals {
			if errors.Is(err, refused) {
				return notApplied{text}
			}
		}
		return text
	}
	got, err := readStriping(fd, name)
	if err != nil {
		return failed("read the layout again", fd, err, nil)
	}
	want, have := s.layout(), got.layout()
	if differs := lustre.Same(&want, &have, 0); differs != "" {
		return fmt.Errorf("set the layout of %s: %w: %s", lustre.Where(fd), lustre.ErrNotApplied, differs)
	}
	return nil
}
