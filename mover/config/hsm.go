package config

import (
	"errors"
	"strings"
)

// DefaultHSMJobs is how many actions of an archive are in work at a time.
const DefaultHSMJobs = 4

// HSM is an archive of a Lustre that this node serves as a copytool.
type HSM struct {
	Mount   string `koanf:"mount"`   // where the file system is mounted; a mount has one archive
	Archive uint32 `koanf:"archive"` // number of the archive, as in lfs hsm_archive --archive
	To      string `koanf:"to"`      // where the copies are, of this file system alone
	Jobs    int    `koanf:"jobs"`    // actions at one time; 0 is DefaultHSMJobs
}

// maxArchive bounds the number of an archive, which has 32 bits. Old servers know 1 to 32.
const maxArchive = 1 << 31

var hsmRule = rule{
	keys: map[string]rule{
		"mount":   {check: absolute},
		"archive": {number: maxArchive},
		"to":      {check: inTier, tier: tierOf},
		"jobs":    {number: 1024},
	},
	need: []string{"mount", "archive", "to"},
}

// inTier checks a place that has to be in a tier.
func inTier(s string) error {
	tier, below, deeper := strings.Cut(s, ":")
	if tierName(tier) != nil || deeper && below != "" && prefix(below) != nil {
		return errors.New("must be TIER or TIER:path, without empty, . and .. segments")
	}
	return nil
}
