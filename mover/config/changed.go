package config

import (
	"slices"
	"strings"
)

// Changed returns the keys in which two configurations differ, sorted. A list is
// one key.
func Changed(from, to *Config) []string {
	a, b := from.values(), to.values()
	var keys []string
	for key := range a {
		if !slices.Equal(a[key], b[key]) {
			keys = append(keys, key)
		}
	}
	for key := range b {
		if a[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// values returns what is set: one value for a key, or those of its list in order.
func (c *Config) values() map[string][]string {
	values := map[string][]string{}
	for _, s := range c.settings {
		key := listKey(s.Key)
		values[key] = append(values[key], s.Key, s.Value)
	}
	return values
}

// restart are the keys on top that a running service does not take up.
var restart = map[string]bool{"listen": true, "metrics": true, "scrape": true, "join": true, "data": true, "node": true, "peers": true, "accounts": true, "audit": true, "leases": true, "trace": true, "hsm": true}

// NeedsRestart reports whether a service takes up a changed key only when it
// starts again.
func NeedsRestart(key string) bool {
	top, _, _ := strings.Cut(key, ".")
	return restart[top]
}
