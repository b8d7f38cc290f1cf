package config

import (
	"maps"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/config/spelling"
)

// NoTier is the mistake of a command that names a tier which is not in the file.
func (c *Config) NoTier(name string) error {
	if c.File == "" {
		return mover.Misusef("there is no tier %q: no configuration was found", name)
	}
	tiers := slices.Sorted(maps.Keys(c.Tiers))
	there := strings.Join(tiers, ", ")
	if question := spelling.Question(name, tiers); question != "" {
		return mover.Misusef("there is no tier %q in %s: %s there are: %s", name, c.File, question, there)
	}
	return mover.Misusef("there is no tier %q in %s; there are: %s", name, c.File, there)
}
