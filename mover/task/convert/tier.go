package convert

import (
	"path"
	"strings"

	"datamove.dev/mover/location"
)

// TierOf is the tier that a location is in, by its name or by where tiers are: of
// several, the one with the longest path. "" is none.
func TierOf(l location.Location, paths map[string]string) (tier string) {
	if !l.IsPath() {
		return l.Tier
	}
	at, longest := path.Clean(l.Path), 0
	for name, root := range paths {
		root = path.Clean(root)
		inside := at == root || strings.HasPrefix(at, strings.TrimSuffix(root, "/")+"/")
		if inside && (len(root) > longest || len(root) == longest && name < tier) {
			tier, longest = name, len(root)
		}
	}
	return tier
}
