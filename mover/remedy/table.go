package remedy

import (
	"context"

	"datamove.dev/mover"
)

// row is a remedy of all cases that have what it has.
type row struct {
	kind      error
	operation Operation
	backend   Backend
	cause     string
	try       string
}

const (
	again     = "the same command again: it goes on where it stopped"
	keys      = "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or credentials: of the tier or project"
	endpoint  = "AWS_ENDPOINT_URL_S3, endpoint_url of the profile, or endpoint: of the tier"
	onTheWay  = "; namei -l PATH shows which folder on the way refuses"
	region    = "that region in AWS_REGION, in region of the profile, or in region: of the tier"
	restored  = "aws s3api restore-object, and the same command when the objects are back; --released=skip of copy and sync leaves them out"
	keyOfKMS  = "another kmsKey: of the tier, or the state of this one: aws kms describe-key"
	newKeys   = "new keys: aws sso login, or what gave out AWS_SESSION_TOKEN and the two keys beside it"
	mountLook = "a look at its mount (cat /proc/self/mounts), its servers and dmesg; umount -f -l lets go of a mount that is dead"
)

// table has all remedies. Of the rows that fit, the most particular one counts.
var table = []row{
	{kind: context.Canceled, try: again},
	{kind: context.Canceled, backend: Data, try: ""}, // it was told to stop
	{kind: context.DeadlineExceeded, try: again},
	{kind: context.DeadlineExceeded, backend: Data, try: "again in a moment"},
	{kind: mover.ErrTimeout, try: again},
	{kind: mover.ErrTimeout, backend: Files, try: mountLook},
	{kind: mover.ErrTransient, try: again},
	{kind: mover.ErrTransient, backend: Data, try: "again in a moment"},
	{kind: mover.ErrTransient, backend: Files, cause: "EMFILE", try: "ulimit -n with a larger number, or a smaller --jobs of copy or sync"},

	{kind: mover.ErrCorrupt, try: "datamove copy --checksum SRC DST to bring the good bytes over again, and a look at the disk or network that changed them"},
	{kind: mover.ErrCorrupt, cause: Outdated, try: "datamove copy SRC DST, which brings what has another size, kind or target of a link"},
	{kind: mover.ErrCorrupt, cause: Missing, try: "datamove copy SRC DST, which brings what is missing"},
	{kind: mover.ErrCorrupt, cause: Metadata, try: "datamove copy SRC DST, which brings modes, times and attributes, and as root owners; --preserve of copy and verify leaves some out"},
	{kind: mover.ErrCorrupt, cause: Extra, try: "datamove sync --delete SRC DST, which removes what the source has not; --dry-run of sync names it first"},
	{kind: mover.ErrCorrupt, backend: Data, try: "a restore from the last backup, into an empty directory: datamoved restore FILE"},

	{kind: mover.ErrFull, try: "the same command again when there is room: it goes on where it stopped"},
	{kind: mover.ErrFull, backend: Files, try: "the same command again when there is room: df PATH and datamove quota show PATH say what is full"},
	{kind: mover.ErrFull, backend: S3, try: "the same command again when the bucket's quota or the store has room: it goes on where it stopped"},
	{kind: mover.ErrFull, backend: Data, try: "again when there is room"},

	{kind: mover.ErrHeld, try: "waiting for the other run, or stopping it"},
	{kind: mover.ErrHeld, backend: Files, try: "waiting for the other run, stopping it, or a folder of its own below this one as the target: that is not held"},
	{kind: mover.ErrHeld, backend: S3, try: "waiting for the other run, stopping it, or a prefix of its own below this one as the target: that is not held"},
	{kind: mover.ErrHeld, backend: Data, try: "stopping the other one first, or another directory and address: --data, --listen"},

	{kind: mover.ErrChanged, try: "the same command again when nothing else writes there"},
	{kind: mover.ErrChanged, operation: Read, try: "the same command again when nothing writes to the source"},
	{kind: mover.ErrChanged, operation: Write, try: "the same command again when nothing else writes to the target"},
	{kind: mover.ErrChanged, backend: Data, try: "again"},

	{kind: mover.ErrConflict, operation: Write, try: "another name for one of the two, or the removal of what is in the way"},
	{kind: mover.ErrConflict, operation: Open, backend: Files, cause: "ENOTDIR", try: "another path, or the removal of the file that has the place of the directory"},
	{kind: mover.ErrConflict, operation: Remove, try: "the same command again: something was put there meanwhile"},

	{kind: mover.ErrPermission, try: "as a user who may read the source and write the target"},
	{kind: mover.ErrPermission, operation: Open, backend: Files, try: "as a user who may enter and read it" + onTheWay},
	{kind: mover.ErrPermission, operation: Read, backend: Files, try: "as a user who may read it" + onTheWay},
	{kind: mover.ErrPermission, operation: Write, backend: Files, try: "as a user who may write there" + onTheWay},
	{kind: mover.ErrPermission, operation: Remove, backend: Files, try: "as the owner of it or of its folder, or root; lsattr PATH shows what can not be changed at all"},
	{kind: mover.ErrPermission, operation: Lock, backend: Files, try: "as a user who may write there" + onTheWay},
	{kind: mover.ErrPermission, backend: Files, cause: "EROFS", try: "a target that is mounted for writing; as root, mount -o remount,rw PATH"},
	{kind: mover.ErrPermission, backend: S3, try: "credentials that may do that: " + keys},
	{kind: mover.ErrPermission, operation: Open, backend: S3, try: "credentials that may s3:ListBucket there: " + keys},
	{kind: mover.ErrPermission, operation: Read, backend: S3, try: "credentials that may s3:ListBucket and s3:GetObject there: " + keys},
	{kind: mover.ErrPermission, operation: Write, backend: S3, try: "credentials that may s3:PutObject and s3:AbortMultipartUpload there: " + keys},
	{kind: mover.ErrPermission, operation: Remove, backend: S3, try: "credentials that may s3:DeleteObject there: " + keys},
	{kind: mover.ErrPermission, operation: Lock, backend: S3, try: "credentials that may s3:PutObject and s3:DeleteObject there: " + keys},
	{kind: mover.ErrPermission, cause: NoKeys, try: "credentials: " + keys},
	{kind: mover.ErrPermission, cause: "InvalidAccessKeyId", try: "keys of this store, or the endpoint that they are of: " + endpoint},
	{kind: mover.ErrPermission, cause: "SignatureDoesNotMatch", try: "the secret key that belongs to the access key: AWS_SECRET_ACCESS_KEY, or beside it in the profile or file"},
	{kind: mover.ErrPermission, cause: "ExpiredToken", try: newKeys},
	{kind: mover.ErrPermission, cause: "RequestTimeTooSkewed", try: "the right time on this machine, by NTP: timedatectl"},
	{kind: mover.ErrPermission, cause: KMS, try: keyOfKMS},
	{kind: mover.ErrPermission, backend: Service, try: "datamove service info, which shows your account at the service and its permissions"},
	{kind: mover.ErrPermission, backend: Data, try: "as root, or as the user to whom the directory belongs"},

	{cause: NoKeyFile, try: "as an account that may read this file of keys, or another one in credentials: of the tier or project"},
	{cause: Account, try: "on that node, the same account with the same uid: getent passwd NAME"},
	{cause: Unprivileged, try: "datamoved as root on that node, or the command as the agent's own user"},
	{cause: Journals, try: "on that node, agent.journals: in its configuration, with a folder that datamoved may write, and that has room"},
	{cause: KeyFile, try: "on that node, the file or profile that credentials: of the tier or project names, readable for datamoved"},
	{cause: Tier, try: "on that node, tiers: in its configuration as the coordinator has them; systemctl reload datamoved"},
	{cause: Confined, try: "on that node, namei -l PATH as the owner of the task, and a look at the mount of PATH"},
	{cause: DeadMount, try: "on that node, " + mountLook},
	{cause: Program, try: "on that node, the program of datamoved, executable and on no mount with noexec; systemctl restart datamoved"},
	{cause: Crowded, try: "on that node, free memory, TasksMax and MemoryMax of datamoved's unit, and ulimit -u"},
	{cause: Worker, try: "on that node, journalctl -u datamoved, and dmesg, which names a process that the kernel has killed"},

	{kind: mover.ErrUsage, cause: OtherRegion, try: region},
	{kind: mover.ErrUsage, cause: OtherScheme, try: "the other one of http:// and https://, or another port, in " + endpoint},
	{kind: mover.ErrUsage, cause: KMS, try: keyOfKMS},
	{kind: mover.ErrUsage, cause: NoProfile, try: "aws configure list-profiles, and the right name in AWS_PROFILE or credentials: of the tier"},

	{kind: mover.ErrUnreachable, try: "datamove doctor LOCATION"},
	{kind: mover.ErrUnreachable, backend: Files, try: mountLook},
	{kind: mover.ErrUnreachable, backend: S3, try: "datamove doctor LOCATION, and the endpoint: " + endpoint},
	{kind: mover.ErrUnreachable, cause: Certificate, try: "the authority that signed the certificate, in AWS_CA_BUNDLE or in ca: of the tier"},
	{kind: mover.ErrUnreachable, cause: OtherHost, try: "as the host a name that the certificate has, in " + endpoint},
	{kind: mover.ErrUnreachable, cause: Expired, try: "a certificate on the server that is valid now, or the right time on this machine: timedatectl"},
	{kind: mover.ErrUnreachable, backend: Service, try: "datamove doctor, which asks the service, too"},
	{kind: mover.ErrTimeout, backend: Service, try: "datamove doctor, which asks the service, too"},
	{kind: mover.ErrUnreachable, backend: Data, try: "the address and what is between: --join, --listen"},
	{kind: mover.ErrTimeout, backend: Data, try: "again in a moment"},

	{kind: mover.ErrNotExist, try: "the spelling, with datamove ls on what is above it"},
	{kind: mover.ErrNotExist, operation: Lock, backend: Files, try: "a target that is there, and in which files can be made"},
	{kind: mover.ErrNotExist, backend: S3, cause: "NoSuchBucket", try: "the spelling of the bucket, and the endpoint that has it: " + endpoint},
	{kind: mover.ErrNotExist, backend: Data, try: "the spelling of the path"},

	{kind: mover.ErrReleased, try: "lfs hsm_restore, or aws s3api restore-object, and the same command again; --released=skip of copy and sync leaves them out"},
	{kind: mover.ErrReleased, backend: Files, try: "--released=restore of copy and sync, which recalls them, or --released=skip, which leaves them out; for others lfs hsm_restore first"},
	{kind: mover.ErrReleased, backend: S3, try: restored},

	{kind: mover.ErrRefused, backend: Files, cause: "EFBIG", try: "ulimit -f unlimited"},
	{kind: mover.ErrUnsupported, backend: Files, cause: "EFBIG", try: "ulimit -f unlimited, or a target that takes files so large"},
	{kind: mover.ErrUnsupported, backend: Files, cause: "ENAMETOOLONG", try: "a shorter name, or a target that takes it"},
	{kind: mover.ErrUnsupported, backend: Files, cause: "EILSEQ", try: "a name in UTF-8, or a target that takes any bytes"},
	{kind: mover.ErrUnsupported, backend: S3, cause: "NotImplemented", try: "a newer version of the store, or another one; datamove doctor LOCATION says what this one can"},
}

// Causes that several backends' errors have by one name, beside the codes of S3.
const (
	NoKeys      = "NoKeys"      // there are no credentials at all
	NoKeyFile   = "NoKeyFile"   // the file of keys that is named can not be read
	NoProfile   = "NoProfile"   // the profile that is named is in no file
	OtherRegion = "OtherRegion" // the bucket is in another one
	OtherScheme = "OtherScheme" // http:// for https://, or the reverse
	Certificate = "Certificate" // of an authority that is not trusted
	OtherHost   = "OtherHost"   // the certificate is for another one
	Expired     = "Expired"     // the certificate is, or it is not valid for another reason
	KMS         = "KMS"         // the key to encrypt with is of no use
)

// Causes of a node that can not begin with a task, of errors of any kind.
const (
	Account      = "Account"      // of the owner of the task
	Unprivileged = "Unprivileged" // the agent is not root, and another account's
	Journals     = "Journals"     // their directory
	KeyFile      = "KeyFile"      // the credentials of a tier or project
	Tier         = "Tier"         // it is not in the configuration of the node
	Confined     = "Confined"     // the worker can not be let in where it has to work
	DeadMount    = "DeadMount"    // a file system does not answer the worker that is to be let in
	Program      = "Program"      // of the worker
	Crowded      = "Crowded"      // no memory, or too many processes
	Worker       = "Worker"       // it has ended, or hangs, before it was ready
)

// Causes of what a comparison finds, beside other bytes.
const (
	Outdated = "Outdated" // another size, kind or target of a link
	Missing  = "Missing"
	Metadata = "Metadata" // the content is equal
	Extra    = "Extra"    // not in the source
)
