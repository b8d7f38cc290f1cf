package lustre

import (
	"fmt"
	"strconv"
	"strings"
)

// Setstripe is l as arguments of lfs setstripe (lfs-setstripe(1)), and of lfs mirror
// create where it has mirrors, without the name of the file. ok is false for layouts that
// can not be said so: foreign ones, and those in a format that is not known.
func (l *Layout) Setstripe() (args []string, ok bool) {
	if len(l.Components) == 0 {
		return nil, false
	}
	args = []string{"lfs", "setstripe"}
	mirrors := 0
	for i := range l.Components {
		if l.Components[i].Start == 0 {
			mirrors++
		}
	}
	if mirrors > 1 {
		args = []string{"lfs", "mirror", "create"}
	}
	composite := len(l.Components) > mirrors || l.Components[0].End != EOF
	for i := range l.Components {
		c := &l.Components[i]
		if mirrors > 1 && c.Start == 0 {
			args = append(args, "-N")
		}
		if c.Flags.Has(Extension) {
			continue // said with the one before it, which grows into it
		}
		if composite {
			end := c.End
			if i+1 < len(l.Components) && l.Components[i+1].Flags.Has(Extension) {
				end = l.Components[i+1].End
			}
			args = append(args, "-E", LfsSize(end))
		}
		args = append(args, c.setstripe()...)
		if i+1 < len(l.Components) && l.Components[i+1].Flags.Has(Extension) {
			args = append(args, "-z", LfsSize(l.Components[i+1].StripeBytes))
		}
	}
	return args, true
}

// setstripe is what is said of one component.
func (c *Component) setstripe() (args []string) {
	switch {
	case c.Pattern == OnMDT:
		return []string{"-L", "mdt"}
	case c.Pattern == Overstriped && c.StripeCount != 0:
		args = append(args, "-C", strconv.Itoa(c.StripeCount))
	case c.StripeCount != 0:
		args = append(args, "-c", strconv.Itoa(c.StripeCount))
	}
	if c.StripeBytes != 0 {
		args = append(args, "-S", LfsSize(c.StripeBytes))
	}
	if c.Pool != "" {
		args = append(args, "-p", c.Pool)
	}
	switch {
	case len(c.Objects) > 0:
		targets := make([]string, len(c.Objects))
		for i, o := range c.Objects {
			targets[i] = strconv.Itoa(o.Target)
		}
		args = append(args, "-o", strings.Join(targets, ","))
	case c.FirstTarget >= 0:
		args = append(args, "-i", strconv.Itoa(c.FirstTarget))
	}
	return args
}

// Mkdir is s as arguments of lfs mkdir, which makes a directory with it, without the
// name. ok is false for the zero Striping.
func (s *Striping) Mkdir() (args []string, ok bool) {
	if s.Count == 0 {
		return nil, false
	}
	args = []string{"lfs", "mkdir", "-c", strconv.Itoa(s.Count)}
	if s.FirstMDT >= 0 {
		args = append(args, "-i", strconv.Itoa(s.FirstMDT))
	}
	if s.Hash != 0 {
		args = append(args, "-H", s.Hash.String())
	}
	return args, true
}

// LfsSize is a number of bytes as lfs writes them: 4M, and -1 for EOF.
func LfsSize(n int64) string {
	if n == EOF {
		return "-1"
	}
	for i, unit := range []string{"T", "G", "M", "K"} {
		if size := int64(1) << (40 - 10*i); n != 0 && n%size == 0 {
			return fmt.Sprintf("%d%s", n/size, unit)
		}
	}
	return strconv.FormatInt(n, 10)
}
