package client

import (
	"slices"
	"strings"
)

// Mount is what a line of the mount table says of a mounted Lustre.
type Mount struct {
	Servers string // of its management: "10.77.0.1@tcp:10.77.0.2@tcp"
	Name    string // of the file system
	Subdir  string // "/sub" when only that is mounted; else ""
}

// ParseMount reads the source, type and options of a mount: of a client that is
// NID[,NID][:NID]:/NAME[/SUBDIR]. ok is false for anything else, and for the storage of a
// server, which has the type lustre, too, and a device as its source.
func ParseMount(source, fstype string, options []string) (m Mount, ok bool) {
	server := slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "svname=") })
	servers, rest, found := strings.Cut(source, ":/")
	if fstype != "lustre" || server || !found || !strings.Contains(servers, "@") {
		return Mount{}, false
	}
	name, sub, _ := strings.Cut(rest, "/")
	if !validName(name) {
		return Mount{}, false
	}
	if sub = strings.Trim(sub, "/"); sub != "" {
		sub = "/" + sub
	}
	return Mount{Servers: servers, Name: name, Subdir: sub}, true
}
