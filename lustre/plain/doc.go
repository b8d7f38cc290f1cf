// Package plain asks file systems of one machine for quotas: qgroups of btrfs, project
// quotas of ext4 and xfs.
package plain
