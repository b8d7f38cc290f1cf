package mover

// Extended attributes of ours. A place that keeps no extended attributes may keep these: S3
// does, as user metadata.
const (
	// XattrPath is where a content was, for people and for who has to rebuild a tree from
	// copies that are named after something else.
	XattrPath = "user.datamove.path"
	// XattrCRC is the CRC-64/NVME of a content when it was written, in 16 hexadecimal digits.
	XattrCRC = "user.datamove.crc64nvme"
)
