package lustre

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// MarshalText writes a FID as String does.
func (f FID) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (f *FID) UnmarshalText(text []byte) (err error) {
	*f, err = ParseFID(string(text))
	return err
}

// MarshalText writes a pattern as String does.
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (p *Pattern) UnmarshalText(text []byte) error {
	for pattern, name := range patternNames {
		if name == string(text) {
			*p = pattern
			return nil
		}
	}
	n, err := strconv.ParseUint(string(text), 0, 16)
	if err != nil {
		return fmt.Errorf("%q is no pattern of a layout", text)
	}
	*p = Pattern(n)
	return nil
}

// MarshalText writes a hash as String does.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	for i, name := range hashNames {
		if name == string(text) {
			*h = Hash(i)
			return nil
		}
	}
	n, err := strconv.ParseUint(string(text), 0, 16)
	if err != nil {
		return fmt.Errorf("%q is no hash of a directory", text)
	}
	*h = Hash(n)
	return nil
}

// flagNames are the words of lfs for flags, and ours for those that it has none for.
var flagNames = []struct {
	flag Flags
	name string
}{
	{Stale, "stale"}, {PreferRead, "prefrd"}, {PreferWrite, "prefwr"}, {Offline, "offline"}, {Initialised, "init"}, {NoSync, "nosync"},
	{Extension, "extension"}, {Parity, "parity"}, {Compressed, "compress"}, {Holed, "hole"}, {Released, "released"},
}

// Names are the words for the flags that are set; what has no word is a number.
func (f Flags) Names() (names []string) {
	for _, n := range flagNames {
		if f.Has(n.flag) {
			names = append(names, n.name)
			f &^= n.flag
		}
	}
	if f != 0 {
		names = append(names, fmt.Sprintf("%#x", uint64(f)))
	}
	return names
}

// flagsOf is the inverse of Names.
func flagsOf(names []string) (f Flags, err error) {
next:
	for _, name := range names {
		for _, n := range flagNames {
			if n.name == name {
				f |= n.flag
				continue next
			}
		}
		n, err := strconv.ParseUint(name, 0, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no flag of a component", name)
		}
		f |= Flags(n)
	}
	return f, nil
}

// componentJSON is a component as JSON. What has no end has none there, either.
type componentJSON struct {
	ID          uint32       `json:"id,omitempty"`
	Start       int64        `json:"start"`
	End         *int64       `json:"end,omitempty"`
	Pattern     Pattern      `json:"pattern"`
	Flags       []string     `json:"flags,omitempty"`
	StripeBytes int64        `json:"stripe_bytes"`
	StripeCount int          `json:"stripe_count"`
	FirstTarget *int         `json:"first_target,omitempty"`
	Pool        string       `json:"pool,omitempty"`
	ObjectBytes int64        `json:"object_bytes,omitempty"`
	Namespace   string       `json:"pool_namespace,omitempty"`
	Objects     []objectJSON `json:"objects,omitempty"`
	Foreign     *Foreign     `json:"foreign,omitempty"`
}

type objectJSON struct {
	Target     int    `json:"target"`
	FID        FID    `json:"fid,omitzero"`
	Generation uint32 `json:"generation,omitempty"`
}

type layoutJSON struct {
	Components []componentJSON `json:"components,omitempty"`
	Mirrored   string          `json:"mirrored,omitempty"`
	Mirrors    int             `json:"mirrors,omitempty"`
	Generation uint32          `json:"generation,omitempty"`
	Foreign    *Foreign        `json:"foreign,omitempty"`
	Opaque     []byte          `json:"opaque,omitempty"`
}

// MarshalJSON writes a layout in words: patterns and flags as lfs has them, and no end
// where there is none. What only the bytes of a stored layout have (Kept, Stored) is not in it.
func (l Layout) MarshalJSON() ([]byte, error) {
	v := layoutJSON{Generation: l.Generation, Mirrors: l.Mirrors, Opaque: l.Opaque, Foreign: l.Foreign}
	if l.Mirrored != NotMirrored {
		v.Mirrored = l.Mirrored.String()
	}
	for _, c := range l.Components {
		one := componentJSON{ID: c.ID, Start: c.Start, Pattern: c.Pattern, Flags: c.Flags.Names(),
			StripeBytes: c.StripeBytes, StripeCount: c.StripeCount, Pool: c.Pool, Namespace: c.PoolNamespace, ObjectBytes: c.ObjectBytes, Foreign: c.Foreign}
		if c.End != EOF {
			one.End = &c.End
		}
		if c.FirstTarget != AnyTarget {
			one.FirstTarget = &c.FirstTarget
		}
		for _, o := range c.Objects {
			one.Objects = append(one.Objects, objectJSON(o))
		}
		v.Components = append(v.Components, one)
	}
	return json.Marshal(v)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Layout) UnmarshalJSON(text []byte) error {
	var v layoutJSON
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	*l = Layout{Generation: v.Generation, Mirrors: v.Mirrors, Opaque: v.Opaque, Foreign: v.Foreign}
	if v.Mirrored != "" {
		state := slices.Index(mirroredNames[:], v.Mirrored)
		if state < 0 {
			return fmt.Errorf("%q is no state of mirrors", v.Mirrored)
		}
		l.Mirrored = Mirrored(state)
	}
	for _, one := range v.Components {
		c, err := one.component()
		if err != nil {
			return err
		}
		l.Components = append(l.Components, c)
	}
	return nil
}

func (v *componentJSON) component() (Component, error) {
	flags, err := flagsOf(v.Flags)
	c := Component{ID: v.ID, Start: v.Start, End: EOF, Pattern: v.Pattern, Flags: flags, StripeBytes: v.StripeBytes,
		StripeCount: v.StripeCount, FirstTarget: AnyTarget, Pool: v.Pool, PoolNamespace: v.Namespace, ObjectBytes: v.ObjectBytes, Foreign: v.Foreign}
	if v.End != nil {
		c.End = *v.End
	}
	if v.FirstTarget != nil {
		c.FirstTarget = *v.FirstTarget
	}
	for _, o := range v.Objects {
		c.Objects = append(c.Objects, Object(o))
	}
	return c, err
}
