package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"datamove.dev/lustre"
)

// Pools returns the pools of OSTs, each with the indices of its OSTs. There is no request
// for them: they are files among the client's parameters.
func (c *Client) Pools(ctx context.Context) (map[string][]int, error) {
	files := c.k.files()
	for _, place := range c.places("lov", "clilov-", "pools") {
		entries, err := fs.ReadDir(files, place)
		if err != nil {
			continue
		}
		pools := map[string][]int{}
		for _, e := range entries {
			if lustre.ValidPool(e.Name()) != nil {
				continue
			}
			text, err := readParameter(files, place+"/"+e.Name())
			if err != nil {
				return nil, fmt.Errorf("read the pool %s of %s: %w", e.Name(), c.Name, err)
			}
			pools[e.Name()] = poolMembers(text, c.Name)
		}
		return pools, nil
	}
	if _, err := c.parameter("lov", "clilov-", "numobd"); err == nil {
		return map[string][]int{}, nil // its parameters are there, and no pools
	}
	return c.program.pools(ctx, c.Name)
}

// poolMembers are the OSTs of a pool, one a line: "lab-OST0000_UUID".
func poolMembers(text, fsname string) []int {
	var members []int
	for line := range strings.Lines(text) {
		if kind, index, ok := parseTarget(strings.TrimSpace(line), fsname); ok && kind == lustre.OST {
			members = append(members, index)
		}
	}
	slices.Sort(members)
	return slices.Compact(members)
}

// parseTarget takes the name of a target apart: lab-OST001f_UUID is OST 31 of lab.
func parseTarget(name, fsname string) (kind lustre.TargetKind, index int, ok bool) {
	rest, mine := strings.CutPrefix(strings.TrimSuffix(name, "_UUID"), fsname+"-")
	digits, isOST := strings.CutPrefix(rest, "OST")
	kind = lustre.OST
	if !isOST {
		if digits, ok = strings.CutPrefix(rest, "MDT"); !ok {
			return 0, 0, false
		}
		kind = lustre.MDT
	}
	n, err := strconv.ParseUint(digits, 16, 16)
	return kind, int(n), mine && err == nil && len(digits) == 4
}

// checkPools reports the first pool of l that there is not, or that has no OSTs.
func (c *Client) checkPools(ctx context.Context, l *lustre.Layout) error {
	var pools map[string][]int
	for i := range l.Components {
		name := l.Components[i].Pool
		if name == "" {
			continue
		}
		if pools == nil {
			var err error
			if pools, err = c.Pools(ctx); err != nil {
				return fmt.Errorf("%w: whether there is a pool %s is not known, and Lustre does not ask: %w", lustre.ErrNotApplied, name, err)
			}
		}
		if members, ok := pools[name]; !ok || len(members) == 0 {
			return fmt.Errorf("%w: %s has no pool %s with OSTs (it has %s)", lustre.ErrNotApplied, c.Name, name, named(pools))
		}
	}
	return nil
}

func named(pools map[string][]int) string {
	if len(pools) == 0 {
		return "none"
	}
	return strings.Join(sortedKeys(pools), ", ")
}

// errNoProgram is for what only the program lfs could answer, where there is none.
var errNoProgram = fmt.Errorf("the kernel does not answer, and there is no program lfs: %w", errors.ErrUnsupported)

func sortedKeys(pools map[string][]int) []string {
	return slices.Sorted(maps.Keys(pools))
}
