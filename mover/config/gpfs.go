package config

import (
	"errors"
	"net/url"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// GPFS is how a file system of Storage Scale is asked about its filesets, quotas and pools:
// by the REST API of its GUI, or else by the mm commands of this node.
type GPFS struct {
	URL         string `koanf:"url"`         // of the GUI; "" is the mm commands
	Credentials string `koanf:"credentials"` // a file with SCALE_USER and SCALE_PASSWORD
	CA          string `koanf:"ca"`          // the authority of the GUI's certificate; "" trusts the system's authorities
	As          string `koanf:"as"`          // what its own cluster calls the file system; "" is as it is mounted here
	Commands    string `koanf:"commands"`    // directory of the mm commands, or of wrappers; "" is /usr/lpp/mmfs/bin
}

var gpfsRule = rule{
	whole: guiAndWho,
	keys: map[string]rule{
		"url":         {check: gui},
		"credentials": {check: absolute},
		"ca":          {check: absolute},
		"as":          {check: name},
		"commands":    {check: absolute},
	},
}

func guiAndWho(has map[string]*yaml.Node) error {
	switch {
	case has["url"] != nil && has["credentials"] == nil:
		return errors.New("has a url and no credentials: the GUI answers to users only")
	case has["url"] == nil && (has["credentials"] != nil || has["ca"] != nil):
		return errors.New("has no url: credentials and ca are for the GUI, and the mm commands use neither")
	}
	return nil
}

// gui is the address of a GUI: passwords go there.
func gui(s string) error {
	if !strings.HasPrefix(s, "https://") {
		return errors.New("must be a URL like https://gui.site:443: a password goes there")
	}
	if u, err := url.Parse(s); err == nil && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "") {
		return errors.New("must end after the host and port: /scalemgmt/v2 is put behind it")
	}
	return endpoint(s)
}
