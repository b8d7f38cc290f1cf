package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"datamove.dev/mover"
)

// Template is a file with every key explained and nothing set.
const Template = `# Configuration of datamove. Check it with: datamove config check

# Tiers are named places: "archive:run-7" is run-7 below the tier archive.
# Each has a level (hot: node NVMe, warm: parallel file system, cold: objects)
# and either a path or a bucket.
tiers:
#  scratch:
#    level: hot
#    path: /local_nvme
#    ephemeral: true            # purge may remove what is here
#  project:
#    level: warm
#    path: /lustre/project
#  archive:
#    level: cold
#    s3:
#      endpoint: https://s3.site:9000   # leave it out for AWS
#      bucket: archive
#      prefix: team-a                   # leave it out for the whole bucket
#      region: us-east-1
#      credentials: file:/etc/datamove/archive.env   # or profile:NAME, or env
#      ca: /etc/datamove/ca.pem         # who signed the endpoint's certificate
#      path_style: true                 # leave it out to find out
#      client: auto                     # auto, minio or aws
#
# A credentials file has mode 0600 and the lines
#   AWS_ACCESS_KEY_ID=...
#   AWS_SECRET_ACCESS_KEY=...

# With a service, copies run there. Without one they run in the command itself.
# service: unix:///run/datamove/datamoved.sock
`

// Init writes the template where [Load] will find it and returns the name of the
// file. The file is the owner's alone (0600) and appears whole. An existing one is
// kept, unless force is set.
func Init(getenv func(string) string, force bool) (string, error) {
	file := getenv("DATAMOVE_CONFIG")
	if file == "" {
		file = userFile(getenv)
	}
	if file == "" {
		return "", fmt.Errorf("%w: there is no home directory: name the file with --config", mover.ErrUsage)
	}
	return file, write(file, force)
}

// write puts the template in a temporary name first; a link, unlike a rename, does
// not take the place of a file that appears meanwhile.
func write(file string, force bool) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	draft, err := os.CreateTemp(dir, ".config-*.yaml") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	if _, err := draft.WriteString(Template); err != nil {
		return errors.Join(err, draft.Close())
	}
	if err := errors.Join(draft.Sync(), draft.Close()); err != nil {
		return err
	}
	if force {
		return os.Rename(draft.Name(), file)
	}
	err = os.Link(draft.Name(), file)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s is there already: keep it, or replace it with --force", mover.ErrConflict, mover.Printable(file))
	}
	return err
}
