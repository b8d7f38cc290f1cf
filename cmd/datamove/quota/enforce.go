package quota

import "datamove.dev/lustre"

// HighShare is how full a target, or a project, is when an operator should look at it.
const HighShare = 0.85

// EnforceMend is how a file system is made to enforce the limits of projects.
func EnforceMend(kind lustre.Kind) string {
	switch kind {
	case lustre.IsLustre:
		return "on the MGS: lctl set_param -P osd-*.*.quota_slave.enabled=ugp"
	case lustre.IsExt4:
		return "tune2fs -O project,quota -Q prjquota DEVICE while it is not mounted, then mount -o prjquota"
	case lustre.IsXFS:
		return "mount -o prjquota; a remount is not enough"
	case lustre.IsBtrfs:
		return "btrfs quota enable DIR"
	case lustre.IsGPFS:
		return "mmchfs FILESYSTEM -Q yes --perfileset-quota"
	}
	return "ask its operator"
}
