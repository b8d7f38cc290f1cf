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

// pool returns the OSTs of one pool; none when there is no such pool.
func (c *Client) pool(ctx context.Context, name string) ([]int, error) {
	for _, place := range c.places("lov", "clilov-", "pools/"+name) {
		if text, err := readParameter(c.k.files(), place); err == nil {
			return poolMembers(text, c.Name), nil
		}
	}
	pools, err := c.Pools(ctx)
	return pools[name], err
}

// checkPools reports the first pool of l that there is not, or that has no OSTs. It
// returns how many OSTs may serve a file with that layout: 0 when that is not known, or
// differs from component to component.
func (c *Client) checkPools(ctx context.Context, l *lustre.Layout) (targets int, err error) {
	sizes := map[string]int{}
	for i := range l.Components {
		name := l.Components[i].Pool
		if _, seen := sizes[name]; seen {
			continue
		}
		if name == "" {
			if sizes[name], err = c.countOSTs(); err != nil {
				sizes[name] = 0
			}
			continue
		}
		members, err := c.pool(ctx, name)
		if err != nil {
			return 0, fmt.Errorf("%w: whether there is a pool %s is not known, and Lustre does not ask: %w", lustre.ErrNotApplied, name, err)
		}
		if sizes[name] = len(members); len(members) == 0 {
			return 0, c.noPool(ctx, name)
		}
	}
	if len(sizes) != 1 {
		return 0, nil
	}
	for _, targets = range sizes {
	}
	return targets, nil
}

func (c *Client) noPool(ctx context.Context, name string) error {
	has := "none"
	if pools, err := c.Pools(ctx); err == nil && len(pools) > 0 {
		has = strings.Join(sortedKeys(pools), ", ")
	}
	return fmt.Errorf("%w: %s has no pool %s with OSTs (it has %s)", lustre.ErrNotApplied, c.Name, name, has)
}

// errNoProgram is for what only the program lfs could answer, where there is none.
var errNoProgram = fmt.Errorf("the kernel does not answer, and there is no program lfs: %w", errors.ErrUnsupported)

func sortedKeys(pools map[string][]int) []string {
	return slices.Sorted(maps.Keys(pools))
}
