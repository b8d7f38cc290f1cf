package lustre

import (
	"errors"
	"fmt"
)

// What Lustre refuses, or what it takes and means otherwise.
var (
	errUnaligned = fmt.Errorf("is no multiple of %d KiB", StripeUnit>>10)
	errExtension = fmt.Errorf("is no multiple of %d MiB", ExtensionUnit>>20)
	errBounds    = errors.New("does not begin where the one before it ends")
)

// The limits of a layout: LOV_MAX_STRIPE_COUNT and LOV_MAXPOOLNAME of lustre_user.h.
const (
	MaxStripes      = 2000
	MaxPoolName     = 15
	MaxStripeBytes  = 4<<30 - StripeUnit
	MaxMirrors      = 16
	MaxOnMDT        = 1 << 30  // of each file: what lod.*.dom_stripesize can be set to
	MaxLayoutBytes  = 64 << 10 // of the attribute that a layout is stored in: XATTR_SIZE_MAX of linux/limits.h
	reservedPoolMsg = "is a word with a meaning of its own for Lustre"
)

// ExtensionUnit is what a self-extending component grows by a multiple of: Lustre keeps it as
// a stripe size in KiB, which is a multiple of StripeUnit.
const ExtensionUnit = StripeUnit << 10

// Validate reports what is wrong with a layout that is to be set. What Lustre would
// take silently and not do is an error, too.
func (l *Layout) Validate() error {
	if l.Foreign != nil || len(l.Opaque) > 0 {
		return nil
	}
	if len(l.Components) == 0 {
		return errors.New("a layout of 0 components: it has 1 at least")
	}
	end, mirrors := int64(0), 1
	for i := range l.Components {
		c := &l.Components[i]
		if c.Start == 0 && i > 0 {
			mirrors++
		} else if c.Start != end {
			return fmt.Errorf("component %d %w: %d, and not %d", i+1, errBounds, c.Start, end)
		}
		if err := c.validate(c.Start == 0); err != nil {
			return fmt.Errorf("component %d: %w", i+1, err)
		}
		grows := i+1 < len(l.Components) && l.Components[i+1].Flags.Has(Extension)
		if c.Flags.Has(Extension) && (i == 0 || c.Start == 0 || l.Components[i-1].Flags.Has(Extension)) {
			return fmt.Errorf("component %d: there is none before it that could grow into it", i+1)
		}
		if c.End == c.Start && !grows {
			return fmt.Errorf("component %d: it has no bytes, and does not grow", i+1)
		}
		end = c.End
	}
	if mirrors > MaxMirrors {
		return fmt.Errorf("%d mirrors: Lustre has up to %d", mirrors, MaxMirrors)
	}
	if n := l.storedBytes(); n > MaxLayoutBytes {
		return fmt.Errorf("a layout of %d components: with all its stripes it would take %d bytes, and there is room for %d", len(l.Components), n, MaxLayoutBytes)
	}
	return nil
}

// storedBytes is how much room l takes when all its components have their objects: Lustre
// makes fewer stripes of those that would have none. (lov_comp_md_v1, lov_comp_md_entry_v1,
// lov_mds_md_v3, lov_ost_data_v1 of lustre_user.h.)
func (l *Layout) storedBytes() int {
	const head, entry, plain, object = 32, 48, 48, 24
	n := head
	for i := range l.Components {
		c := &l.Components[i]
		n += entry + plain
		if !c.Flags.Has(Extension) {
			n += object * max(c.StripeCount, len(c.Objects), 0)
		}
	}
	return n
}

func (c *Component) validate(first bool) error {
	switch {
	case c.End != EOF && (c.End < c.Start || c.End%StripeUnit != 0):
		return fmt.Errorf("its end %d %w", c.End, errUnaligned)
	case c.StripeBytes < 0 || c.StripeBytes%StripeUnit != 0:
		return fmt.Errorf("its stripe size %d %w", c.StripeBytes, errUnaligned)
	case c.Flags.Has(Extension) && (c.StripeBytes == 0 || c.StripeBytes%ExtensionUnit != 0):
		return fmt.Errorf("it grows by %d bytes, which %w", c.StripeBytes, errExtension)
	case c.StripeBytes > MaxStripeBytes && !c.Flags.Has(Extension):
		return fmt.Errorf("its stripe size %d is larger than Lustre's limit of %d", c.StripeBytes, int64(MaxStripeBytes))
	case c.StripeCount < AllTargets || c.StripeCount > MaxStripes:
		return fmt.Errorf("its stripe count %d is not within 1 and %d, or -1 for all", c.StripeCount, MaxStripes)
	case c.Pattern == OnMDT && c.Pool != "":
		return errors.New("what lies on the MDT is in no pool of OSTs")
	case c.StripeBytes > 0 && c.Pattern != OnMDT && !c.Flags.Has(Extension) && c.End != EOF && c.End != c.Start && c.End%c.StripeBytes != 0:
		return fmt.Errorf("its end %d is no multiple of its stripe size %d", c.End, c.StripeBytes)
	case c.Pattern == OnMDT && c.End != EOF && c.End > MaxOnMDT:
		return fmt.Errorf("%d bytes on the MDT are more than Lustre's limit of %d (a site sets its own, lod.*.dom_stripesize: 1 MiB where it does not)", c.End, int64(MaxOnMDT))
	case c.Pattern == OnMDT && (!first || c.End == EOF):
		return errors.New("what lies on the MDT is the beginning of a file, and has an end")
	}
	return ValidPool(c.Pool)
}

// ValidPool reports what is wrong with the name of a pool; "" is none. Whether there is
// such a pool, Lustre does not ask when a layout is set: its client has to be asked.
func ValidPool(name string) error {
	switch {
	case len(name) > MaxPoolName:
		return fmt.Errorf("pool %q: a name has up to %d bytes", name, MaxPoolName)
	case name == "ignore" || name == "inherit" || name == "none":
		return fmt.Errorf("pool %q %s", name, reservedPoolMsg)
	}
	for _, b := range []byte(name) {
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '_' && b != '-' && b != '.' {
			return fmt.Errorf("pool %q: a name has letters, digits, '_', '-' and '.'", name)
		}
	}
	return nil
}
