package config

import (
	"errors"
	"strings"
)

// GPFS is how a file system of Storage Scale is asked about its filesets, quotas and pools:
// by the REST API of its GUI, or else by the mm commands of this node.
type GPFS struct {
	URL         string `koanf:"url"`         // of the GUI; "" is the mm commands
	Credentials string `koanf:"credentials"` // a file with SCALE_USER and SCALE_PASSWORD
	CA          string `koanf:"ca"`          // who signed the GUI's certificate; "" is whom the system knows
	As          string `koanf:"as"`          // what the GUI calls the file system; "" is as it is mounted here
	Commands    string `koanf:"commands"`    // directory of the mm commands, or of wrappers; "" is /usr/lpp/mmfs/bin
}

var gpfsRule = rule{
	keys: map[string]rule{
		"url":         {check: gui},
		"credentials": {check: absolute},
		"ca":          {check: absolute},
		"as":          {check: name},
		"commands":    {check: absolute},
	},
}

// gui is the address of a GUI: passwords go there.
func gui(s string) error {
	if !strings.HasPrefix(s, "https://") {
		return errors.New("must be a URL like https://gui.site:443: a password goes there")
	}
	return endpoint(s)
}
