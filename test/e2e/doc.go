// Package e2e is the real program against S3 servers that nobody here wrote.
//
// Its tests run on the embedded server like all others; test/e2e-s3 runs them on
// MinIO, Ceph and rclone, and names the server in DATAMOVE_E2E_NAME. Of a server
// that it knows by name, TestServer expects what its profile must find: also what
// the server does wrongly.
package e2e
