// Package s3 is a backend in a bucket: of AWS S3, or of a server with the same API.
//
// # Words
//
// A name becomes a key by [EncodeKey], below the prefix of the backend. A key that no
// name becomes ("a//b", a line break) has a name by which another store can take it
// (mover.Entry.Key, TestStoreToStore). A directory
// is what keys have in common, or an empty object "dir/", its marker, which carries
// its facts. Facts of files are user metadata in the convention of FSx for Lustre
// and DataSync; a symlink is an object with its target as content. Our
// own objects (lock, manifest, probes) lie below PREFIX/.datamove/ and no walk shows them.
//
// A draft of one part is memory until Publish puts it. A larger one is a
// multipart upload, and its token is the key and the upload id. The profile of a bucket
// is what probes found that its server really does. Many answer 200 to a condition
// or a checksum that they ignore. A checksum that the server does not compare is not called
// [mover.Server]; then transfer reads back (Capabilities.Least).
//
// Encryption at rest (SSE-S3, SSE-KMS, DSSE-KMS) is what the store says of it in its
// answers, and nothing that was only asked for. What lies there otherwise than asked is
// removed, and refused (mover.ErrRefused); a small object of our own finds that out
// before any data goes there. The region of a bucket is what its store says, too.
//
// # Promises
//
// All methods may be called from many goroutines. Every call of ours is one
// request, tried once; retrying is the business of package retry. Calls in flight
// are bounded by Options.Parallel for what this package starts by itself (listing
// ahead, publishing a batch); memory by the buffers, and by a page of keys for each
// listing ahead. No payload is hashed here, and none by package s3api, which makes the calls.
//
// After a crash, drafts in memory are gone and uploads are found by a walk with
// Stray; they do not tell their owner, only their name and when they began. One that the
// server began without our hearing of it is aborted by the next try, or by Sync. A lock
// expires two minutes after its last refresh, or at once when its process was on this host
// and is dead.
//
// S3 has no rename: Remove looks and then deletes, with If-Match where the server
// keeps it. Where it does not, an object that is replaced between the two is lost;
// buckets with versions keep it. Update copies an object onto itself, on the
// condition that it is still the one it looked at. Where the server ignores
// that (Ceph RGW), one that is replaced between the two gets facts that are not its own.
// The copy keeps class, headers, metadata and tags. Above 5 GiB it is one of parts, and tags
// are read and said anew. It keeps the grants of an ACL, the retention and the legal hold, too.
// The first update asks the bucket whether its objects have ACLs (BucketOwnerEnforced, the default
// of AWS, is none) and Object Lock. Only then is more asked of each object. A store that ignores
// locks of a copy (Ceph RGW) gets that version removed, and the update fails. What is put or
// copied to another name, also as a backup, has what its bucket gives to new objects.
//
// What an object has beside its bytes is mover.Entry.Object. GET and HEAD tell it, and that there
// are tags; those take one call more for each object that has some. Amazon does not tell a caller
// without s3:GetObjectTagging that there are any. Content types that say nothing
// (application/octet-stream, binary/octet-stream) are none. A file from a source that tells no headers gets
// the type of its name (mover.TypeOfName), which a file system does not keep. Where the name would give a type that the object has
// not, a file states that there is none (mover.XattrKnown). A marker has all that an object has but a type and a class of
// its own (TestDirObjectsAreWhole). An archive class
// (GLACIER, DEEP_ARCHIVE) is none either: a copy of an object that was restored is STANDARD, so that
// it can be read. An update leaves an object in its archive class.
//
// No call asks for a version but to remove one that was just made: what is read and
// copied is what the key has now.
//
// # Never run against AWS itself
//
// DSSE-KMS, an alias that is said as an ARN, and bucket keys (TestEncryptionWire has them by
// the API reference; MinIO encrypts by SSE-S3 and SSE-KMS in make e2e-s3). Sessions that
// end, and HEAD that is refused without a body (TestTokenEnds has a stand-in for STS that checks
// every signature). HeadBucket of a bucket in another region (TestRegion).
//
// # Left to others
//
// Retries (retry), limits (limit), what has no room in metadata (manifest, for
// which the backend keeps a shelf: OpenManifest and PutManifest).
//
// TestContract shows the promises of mover on real servers, TestTraps what servers
// and clients are known to get wrong, TestHostile a server that lies.
package s3
