package aws

import (
	"slices"
	"strings"

	"datamove.dev/mover"
)

var (
	subnetID  = mover.Pattern(`^subnet-[0-9a-f]{8,17}$`)
	groupID   = mover.Pattern(`^sg-[0-9a-f]{8,17}$`)
	tokenText = mover.Pattern(`^[A-Za-z0-9_.-]{1,63}$`)
	tagText   = mover.Pattern(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)
)

func oneOf(name, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return refuse("BadRequest", "%s %s is none of %s", name, printable(value), strings.Join(known, ", "))
}

func (in *createFileSystem) deployment() string {
	return or(in.LustreConfiguration.DeploymentType, "SCRATCH_1") // the documented default
}

func (in *createFileSystem) persistent() bool {
	return strings.HasPrefix(in.deployment(), "PERSISTENT")
}

// check holds a request to what https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html and
// API_CreateFileSystemLustreConfiguration.html say. The fake has SSDs only, as SCRATCH_2 and PERSISTENT_2; SCRATCH_1 is there to be refused where it has to be.
func (in *createFileSystem) check() error {
	if err := oneOf("FileSystemType", in.FileSystemType, "LUSTRE"); err != nil {
		return err
	}
	if in.LustreConfiguration == nil {
		return refuse("MissingFileSystemConfiguration", "a file system of LUSTRE needs a LustreConfiguration")
	}
	for _, check := range []func() error{in.checkNames, in.checkCapacity, in.checkThroughput, in.checkOptions, in.checkMetadata, in.checkEFA} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (in *createFileSystem) checkNames() error {
	if in.ClientRequestToken != "" && !tokenText().MatchString(in.ClientRequestToken) {
		return refuse("BadRequest", "ClientRequestToken %s: 1 to 63 of A-Z, a-z, 0-9, _ . -", printable(in.ClientRequestToken))
	}
	if len(in.SubnetIDs) != 1 || !subnetID().MatchString(in.SubnetIDs[0]) {
		return refuse("InvalidNetworkSettings", "SubnetIds: exactly one subnet-..., where the file system is")
	}
	for _, id := range in.SecurityGroupIDs {
		if !groupID().MatchString(id) {
			return refuse("InvalidNetworkSettings", "the security group %s is not called sg-...", printable(id))
		}
	}
	return checkTags(in.Tags)
}

func checkTags(tags []tag) error {
	if len(tags) > 50 {
		return refuse("BadRequest", "%d tags: at most 50", len(tags))
	}
	keys := map[string]bool{}
	for _, t := range tags {
		switch {
		case len(t.Key) < 1 || len(t.Key) > 128 || !tagText().MatchString(t.Key) || strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return refuse("BadRequest", "the key of a tag %s: 1 to 128 letters, numbers, spaces and _ . : / = + - @, and not aws: first", printable(t.Key))
		case len(t.Value) > 256 || !tagText().MatchString(t.Value):
			return refuse("BadRequest", "the value of the tag %s: at most 256 letters, numbers, spaces and _ . : / = + - @", printable(t.Key))
		case keys[t.Key]:
			return refuse("BadRequest", "two tags have the key %s", printable(t.Key))
		}
		keys[t.Key] = true
	}
	return nil
}

func (in *createFileSystem) checkCapacity() error {
	step := 2400
	switch in.deployment() {
	case "SCRATCH_1":
		step = 3600
	case "SCRATCH_2", "PERSISTENT_2":
	default:
		return refuse("BadRequest", "this fake has no DeploymentType %s", printable(in.deployment()))
	}
	if err := oneOf("StorageType", or(in.StorageType, "SSD"), "SSD"); err != nil {
		return err
	}
	if in.StorageCapacity == 1200 || in.StorageCapacity == 2400 || (in.StorageCapacity > 0 && in.StorageCapacity%step == 0) {
		return nil
	}
	return refuse("BadRequest", "StorageCapacity %d GiB: 1200, 2400, or a multiple of %d for %s", in.StorageCapacity, step, in.deployment())
}

func (in *createFileSystem) checkThroughput() error {
	per := in.LustreConfiguration.PerUnitStorageThroughput
	switch {
	case !in.persistent() && per != nil:
		return refuse("InvalidPerUnitStorageThroughput", "PerUnitStorageThroughput is not given for %s", in.deployment())
	case in.persistent() && per == nil:
		return refuse("InvalidPerUnitStorageThroughput", "PerUnitStorageThroughput is required for %s", in.deployment())
	case in.persistent() && !slices.Contains([]int{125, 250, 500, 1000}, *per):
		return refuse("InvalidPerUnitStorageThroughput", "PerUnitStorageThroughput %d MB/s/TiB: 125, 250, 500 or 1000 for %s", *per, in.deployment())
	}
	return nil
}

func (in *createFileSystem) checkOptions() error {
	l := in.LustreConfiguration
	if l.MountName != "" {
		return refuse("BadRequest", "MountName is not yours to say")
	}
	if err := oneOf("DataCompressionType", or(l.DataCompressionType, "NONE"), "NONE", "LZ4"); err != nil {
		return err
	}
	if err := oneOf("FileSystemTypeVersion", or(in.FileSystemTypeVersion, "2.15"), "2.10", "2.12", "2.15"); err != nil {
		return err
	}
	switch {
	case in.deployment() == "PERSISTENT_2" && in.FileSystemTypeVersion == "2.10":
		return refuse("BadRequest", "PERSISTENT_2 is not there with FileSystemTypeVersion 2.10")
	case in.KmsKeyID != "" && !in.persistent():
		return refuse("BadRequest", "KmsKeyId: a file system of %s is encrypted with a key of FSx", in.deployment())
	case l.AutomaticBackupRetentionDays != nil && *l.AutomaticBackupRetentionDays != 0 && !in.persistent():
		return refuse("BadRequest", "AutomaticBackupRetentionDays: %s has no backups", in.deployment())
	}
	return nil
}

func (in *createFileSystem) checkMetadata() error {
	m := in.LustreConfiguration.MetadataConfiguration
	if m == nil {
		return nil
	}
	if in.deployment() != "PERSISTENT_2" {
		return refuse("BadRequest", "MetadataConfiguration is for PERSISTENT_2")
	}
	if err := oneOf("MetadataConfiguration.Mode", m.Mode, "AUTOMATIC", "USER_PROVISIONED"); err != nil {
		return err
	}
	switch n := m.Iops; {
	case m.Mode == "AUTOMATIC" && n != nil:
		return refuse("BadRequest", "MetadataConfiguration.Iops is not given with AUTOMATIC")
	case n == nil || slices.Contains([]int{1500, 3000, 6000, 12000}, *n) || (*n > 0 && *n%12000 == 0 && *n <= 192000):
		return nil
	default:
		return refuse("BadRequest", "MetadataConfiguration.Iops %d: 1500, 3000, 6000, 12000 or a multiple of 12000 up to 192000", *n)
	}
}

// efaStep is how much a file system with EFA grows at a time, in GiB, by MB/s/TiB: https://docs.aws.amazon.com/fsx/latest/LustreGuide/increase-storage-capacity.html.
var efaStep = map[int]int{125: 38400, 250: 19200, 500: 9600, 1000: 4800}

// checkEFA is of https://docs.aws.amazon.com/fsx/latest/LustreGuide/efa-file-systems.html: PERSISTENT_2 with a metadata configuration.
func (in *createFileSystem) checkEFA() error {
	l := in.LustreConfiguration
	if l.EfaEnabled == nil || !*l.EfaEnabled {
		return nil
	}
	if in.deployment() != "PERSISTENT_2" || l.MetadataConfiguration == nil {
		return refuse("BadRequest", "EfaEnabled is for PERSISTENT_2 with a MetadataConfiguration")
	}
	if step := efaStep[*l.PerUnitStorageThroughput]; in.StorageCapacity%step != 0 {
		return refuse("BadRequest", "StorageCapacity %d GiB: with EFA and %d MB/s/TiB a multiple of %d", in.StorageCapacity, *l.PerUnitStorageThroughput, step)
	}
	return nil
}
