// Package ceph asks a mounted CephFS: by the virtual extended attributes of its clients.
package ceph
