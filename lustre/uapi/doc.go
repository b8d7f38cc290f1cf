// Package uapi has the bytes that a Lustre client's kernel module and its users exchange:
// layouts, directory stripes, quotas, states of HSM, change logs. It decodes what the
// kernel says and encodes what it is told, and does nothing else.
//
// Every decoder checks bounds before it looks, so that bytes from an attribute or a device
// can be anything; every size, offset and number is that of lustre_user.h and
// lustre_ioctl.h of Lustre 2.15 and 2.17, where they are equal. Fields are little-endian.
// Bytes in testdata were read from a Lustre 2.17.57: TestEveryFixture reads all of them and
// writes them again, TestNumbersOfHeaders and TestFieldsOfHeaders hold sizes, offsets and
// numbers against what a compiler said of the headers.
package uapi
