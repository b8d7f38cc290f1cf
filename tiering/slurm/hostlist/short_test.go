package hostlist

import (
	"strconv"
	"strings"
)

// short prints names for people, and for [Nodes]: n1, n2, n3 is n[1-3]. The order is kept.
func short(names []string) string {
	var b strings.Builder
	for i := 0; i < len(names); {
		prefix, digits := split(names[i])
		end := i + 1
		for end < len(names) && digits != "" {
			if p, d := split(names[end]); p != prefix || d == "" {
				break
			}
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if end == i+1 {
			b.WriteString(names[i])
		} else {
			b.WriteString(prefix + "[" + ranges(names[i:end], len(prefix)) + "]")
		}
		i = end
	}
	return b.String()
}

// split cuts off the number that ends a name.
func split(name string) (prefix, digits string) {
	prefix = strings.TrimRight(name, "0123456789")
	prefix = name[:max(len(prefix), len(name)-digitsMost)]
	return prefix, name[len(prefix):]
}

// ranges prints what stands behind the prefix of names, in runs that count up by one.
func ranges(names []string, prefix int) string {
	var b strings.Builder
	for i := 0; i < len(names); {
		low := names[i][prefix:]
		n, _ := strconv.ParseUint(low, 10, 64) // split leaves digits only, and few
		end := i + 1
		for end < len(names) && names[end][prefix:] == pad(n+uint64(end-i), len(low)) {
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(low)
		if end > i+1 {
			b.WriteString("-" + names[end-1][prefix:])
		}
		i = end
	}
	return b.String()
}
