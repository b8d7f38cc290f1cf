package lustre

import (
	"bytes"
	"fmt"
	"slices"
)

// Same reports whether what was set is what is there, as far as it was said: an answer of
// "no error" is not believed. It returns the first difference, "" when there is none.
// targets is how many OSTs may serve the file (of its pool, or of the file system; 0 when
// it is not known): Lustre takes a larger count and uses what it has.
func Same(wanted, got *Layout, targets int) string {
	if d := wanted.Foreign.differs(got.Foreign); d != "" {
		return d
	}
	if len(wanted.Components) != len(got.Components) {
		return fmt.Sprintf("%d components instead of %d", len(got.Components), len(wanted.Components))
	}
	for i := range wanted.Components {
		if d := wanted.Components[i].differs(&got.Components[i], targets); d != "" {
			return fmt.Sprintf("component %d: %s", i+1, d)
		}
	}
	return ""
}

func (f *Foreign) differs(got *Foreign) string {
	switch {
	case (f != nil) != (got != nil):
		return "one is foreign"
	case f != nil && (f.Type != got.Type || !bytes.Equal(f.Value, got.Value)):
		return fmt.Sprintf("a foreign layout of type %d and %d bytes instead of type %d and %d bytes", got.Type, len(got.Value), f.Type, len(f.Value))
	}
	return ""
}

func targetsOf(objects []Object) []int {
	targets := make([]int, 0, len(objects))
	for _, o := range objects {
		targets = append(targets, o.Target)
	}
	return targets
}

func sameTarget(a, b Object) bool { return a.Target == b.Target }

func (c *Component) differs(got *Component, targets int) string {
	count := c.StripeCount
	if targets > 0 && c.Pattern != Overstriped && count > targets {
		count = targets
	}
	switch {
	case c.Flags.Has(Extension) != got.Flags.Has(Extension):
		return "only one of them is what another component grows into"
	case c.Start != got.Start || c.End != got.End && !c.Flags.Has(Extension) && !got.Flags.Has(Extension):
		return fmt.Sprintf("it covers %d to %d instead of %d to %d", got.Start, got.End, c.Start, c.End)
	case c.Pattern != 0 && c.Pattern != got.Pattern:
		return fmt.Sprintf("pattern %v instead of %v", got.Pattern, c.Pattern)
	case c.StripeBytes != 0 && c.StripeBytes != got.StripeBytes:
		return fmt.Sprintf("stripe size %d instead of %d", got.StripeBytes, c.StripeBytes)
	case count > 0 && got.StripeCount != AllTargets && got.StripeCount != count && got.StripeCount != c.StripeCount && c.Pattern != OnMDT:
		return fmt.Sprintf("stripe count %d instead of %d", got.StripeCount, count)
	case len(c.Objects) > 0 && len(got.Objects) > 0 && !slices.EqualFunc(c.Objects, got.Objects, sameTarget):
		return fmt.Sprintf("it is on the targets %v instead of %v", targetsOf(got.Objects), targetsOf(c.Objects))
	case len(c.Objects) == 0 && c.FirstTarget >= 0 && len(got.Objects) > 0 && c.FirstTarget != got.Objects[0].Target:
		return fmt.Sprintf("it begins on target %d instead of %d", got.Objects[0].Target, c.FirstTarget)
	case c.Pool != "" && c.Pool != got.Pool: // one that is not named comes from the directory
		return fmt.Sprintf("pool %q instead of %q", got.Pool, c.Pool)
	case (c.Pool != "" || c.PoolNamespace != "") && c.PoolNamespace != got.PoolNamespace:
		return fmt.Sprintf("namespace %q of pool %q instead of %q", got.PoolNamespace, got.Pool, c.PoolNamespace)
	case c.ObjectBytes != 0 && c.ObjectBytes != got.ObjectBytes:
		return fmt.Sprintf("objects of %d bytes instead of %d", got.ObjectBytes, c.ObjectBytes)
	}
	return ""
}
