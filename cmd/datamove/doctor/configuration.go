package doctor

import (
	"errors"
	"fmt"
	"os"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/units"
)

// Configuration tells what config.Load returned.
func Configuration(c *config.Config, err error) []Finding {
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		var found []Finding
		for _, p := range problems {
			mend := p.Mend
			if mend == "" {
				mend = "mend that line; datamove config check tells when it is right"
			}
			at := config.Problem{File: p.File, Line: p.Line}.Place()
			found = append(found, fail(at, "configuration", config.Problem{Key: p.Key, What: p.What}.String(), mend))
		}
		return found
	case err != nil:
		return []Finding{fail("configuration", "configuration", err.Error(), "check DATAMOVE_CONFIG and --config")}
	case c.File == "":
		return []Finding{pass("configuration", "configuration", "there is none, and none is needed for paths and the AWS environment")}
	}
	found := []Finding{pass(c.File, "configuration", units.Plural(int64(len(c.Tiers)), "tier", "tiers"))}
	for _, p := range c.Warnings() {
		found = append(found, warn(p.File, "credentials", p.What, p.Mend))
	}
	return found
}

// CredentialsFile looks at a file that a configuration names for credentials.
func CredentialsFile(file string) Finding {
	f, err := os.Open(file)
	if err != nil {
		return fail(file, "credentials", why(err), "write the lines AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=… to it, mode 0600, readable by the account that runs datamove")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fail(file, "credentials", why(err), "look at the disk")
	}
	if config.OthersMayRead(info, os.Geteuid()) {
		return warn(file, "credentials", fmt.Sprintf("others may read this file of secrets (mode %04o)", info.Mode().Perm()),
			"chmod 600 "+mover.Printable(file))
	}
	return pass(file, "credentials", "is there, and only its owner can read it")
}

// why is err without the path, which the subject of a finding has already.
func why(err error) string {
	var perr *os.PathError
	if errors.As(err, &perr) {
		return perr.Err.Error()
	}
	return err.Error()
}
