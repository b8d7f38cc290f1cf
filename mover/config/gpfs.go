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
	URL         string `koanf:"url"`         // of the GUI, with the REST API; "" is the mm commands
	Credentials string `koanf:"credentials"` // file of mode 0600 with SCALE_USER=… and SCALE_PASSWORD=…; "" is none, without url
	CA          string `koanf:"ca"`          // file with the authority of the certificate of the GUI; "" is the authorities of the system
	As          string `koanf:"as"`          // name of the file system in its own cluster; "" is the name of the device here
	Commands    string `koanf:"commands"`    // directory of the mm commands, or of wrappers of them; "" is /usr/lpp/mmfs/bin
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
