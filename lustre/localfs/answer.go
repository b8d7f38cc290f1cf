package localfs

import "datamove.dev/lustre"

// Answer gives s, of which kind, mount and name are known, its answers, and the reasons
// for those that it has not. device is the source of the mount: the block device that
// kernels before 5.14 are asked by; "" when it is not known.
func Answer(s *lustre.System, device string) {
	if s.Lacks == nil {
		s.Lacks = map[lustre.Question]string{}
	}
	for _, known := range []map[lustre.Question]string{lacks[s.Kind], always} {
		for question, why := range known {
			if s.Lacks[question] == "" {
				s.Lacks[question] = why
			}
		}
	}
	s.Usage = Space{Pool: s.Name}
	switch s.Kind {
	case lustre.IsExt4:
		s.Quota = &Projects{device: device, form: dqblk}
	case lustre.IsXFS:
		s.Quota = &Projects{device: device, form: diskQuota, rootToo: true}
	case lustre.IsBtrfs:
		s.Quota = &Subvolumes{}
	default:
		if s.Lacks[lustre.AskQuota] == "" {
			s.Lacks[lustre.AskQuota] = "no quota of projects or directories is known for this type of file system; ext4, xfs and btrfs have them"
		}
	}
}

// always is what none of these file systems has.
var always = map[lustre.Question]string{
	lustre.AskLayout: "files are not striped over servers",
	lustre.AskHSM:    "it has no archive of its own",
	lustre.AskChange: "it keeps no log of changes; changes are found by a scan",
}

// lacks says what there is instead.
var lacks = map[lustre.Kind]map[lustre.Question]string{
	lustre.IsNFS: {
		lustre.AskLayout: "NFS does not tell how its server lays files out: ask on the server",
		lustre.AskQuota:  "NFS has no project or directory quotas; those of its server hold, but can not be seen or set from here: ask on the server",
		lustre.AskHSM:    "NFS does not tell whether its server has an archive",
		lustre.AskChange: "NFS has no feed of changes; changes are found by a scan",
	},
	lustre.IsBeeGFS: {
		lustre.AskLayout: "stripes of BeeGFS are shown and set with its own tools: beegfs entry info|set (version 8), beegfs-ctl --getentryinfo|--setpattern (7)",
		lustre.AskQuota:  "BeeGFS has quotas of users and groups in storage pools, and none of projects or directories: beegfs quota (version 8), beegfs-ctl --getquota|--setquota (7)",
		lustre.AskHSM:    "BeeGFS moves files to object stores with its own tool: beegfs remote (version 8)",
	},
	lustre.IsJuiceFS: {
		lustre.AskLayout: "JuiceFS keeps files as blocks in an object store and has no stripes",
		lustre.AskQuota:  "quotas of directories of JuiceFS are kept in its metadata engine, and shown and set with its own tool: juicefs quota get|set META-URL --path DIR",
		lustre.AskHSM:    "all of its content is in an object store; juicefs warmup fetches it into the cache of a node",
	},
	lustre.IsBtrfs: {
		lustre.AskLayout: "btrfs spreads blocks over its devices by itself",
	},
}
