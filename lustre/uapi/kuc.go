package uapi

// What a copytool asks the kernel for, on any directory of the file system (LL_IOC_* of
// lustre_user.h).
const (
	IocCopytool     = 0x401866d5 // LL_IOC_HSM_CT_START: a Registration
	IocCopyStart    = 0x400866d6 // LL_IOC_HSM_COPY_START: a Copy, which gets the data version of the file
	IocCopyEnd      = 0x400866d7 // LL_IOC_HSM_COPY_END: a Copy
	IocCopyProgress = 0x401866d8 // LL_IOC_HSM_PROGRESS: a Progress
	IocFIDToMDT     = 0xc01066f8 // LL_IOC_FID2MDTIDX: a FID; the MDT's index is what the call returns
	IocSetTimes     = 0xc03066b0 // LL_IOC_FUTIMES_3 on the open file: Times
)

// Registration tells the kernel where the actions of an archive are to be written: struct
// lustre_kernelcomm (24 bytes) and the archives' numbers behind it.
type Registration struct {
	WriteFD, ReadFD uint32 // of a pipe, as they are numbered in this process
	PID             uint32
	Archives        []uint32 // none is every archive
	Stop            bool     // takes the registration back
}

// The rest of a registration: KUC_GRP_HSM, LK_FLG_STOP, LK_FLG_DATANR.
const (
	registrationSize = 24
	groupHSM         = 2
	flagStop         = 1
	flagArchives     = 2
)

// Encode gives the bytes for IocCopytool.
func (r *Registration) Encode() []byte {
	flags := uint32(flagArchives)
	if r.Stop {
		flags = flagStop
	}
	b := make([]byte, 0, registrationSize+4*len(r.Archives))
	for _, v := range []uint32{r.WriteFD, r.ReadFD, r.PID, groupHSM, uint32(len(r.Archives)), flags} {
		b = le.AppendUint32(b, v)
	}
	for _, a := range r.Archives {
		b = le.AppendUint32(b, a)
	}
	return b
}

// DecodeRegistration is the inverse of Encode.
func DecodeRegistration(b []byte) (r Registration, err error) {
	if len(b) < registrationSize {
		return r, malformed("a registration of %d bytes: it has %d and more", len(b), registrationSize)
	}
	count := le.Uint32(b[16:])
	if group := le.Uint32(b[12:]); group != groupHSM || uint64(count)*4 > uint64(len(b)-registrationSize) {
		return r, malformed("a registration in group %d with %d archives in %d bytes", group, count, len(b))
	}
	r = Registration{WriteFD: le.Uint32(b), ReadFD: le.Uint32(b[4:]), PID: le.Uint32(b[8:]), Stop: le.Uint32(b[20:])&flagStop != 0}
	for i := range int(count) {
		r.Archives = append(r.Archives, le.Uint32(b[registrationSize+4*i:]))
	}
	return r, nil
}

// MessageHeaderSize is what each message of the kernel begins with (struct kuc_hdr).
const MessageHeaderSize = 8

const (
	magicMessage = 0x191C // KUC_MAGIC
	transportHSM = 2      // KUC_TRANSPORT_HSM
)

// MessageType is what is in a message.
type MessageType uint16

// The messages: KUC_MSG_SHUTDOWN and HMT_ACTION_LIST.
const (
	Shutdown MessageType = 1
	Actions  MessageType = 100
)

// MessageHeader says what follows it, and how long that is.
type MessageHeader struct {
	Transport uint8
	Flags     uint8
	Type      MessageType
	Length    int // of the message without this header, in bytes; up to 65,527
}

// DecodeMessageHeader reads the first MessageHeaderSize bytes of a message. An error means
// that where the next message begins is not known.
func DecodeMessageHeader(b []byte) (h MessageHeader, err error) {
	if len(b) < MessageHeaderSize {
		return h, malformed("the header of a message in %d bytes: it has %d", len(b), MessageHeaderSize)
	}
	length := int(le.Uint16(b[6:]))
	if magic := le.Uint16(b); magic != magicMessage || length < MessageHeaderSize {
		return h, malformed("a message with magic %#x of %d bytes: it begins with %#x", magic, length, magicMessage)
	}
	return MessageHeader{b[2], b[3], MessageType(le.Uint16(b[4:])), length - MessageHeaderSize}, nil
}

// Encode is the inverse of DecodeMessageHeader.
func (h *MessageHeader) Encode() []byte {
	b := le.AppendUint16(nil, magicMessage)
	b = append(b, h.Transport, h.Flags)
	b = le.AppendUint16(b, uint16(h.Type))
	return le.AppendUint16(b, uint16(h.Length+MessageHeaderSize))
}

// Times are what IocSetTimes gives a file (struct ll_futimes_3): seconds since 1970 and
// nanoseconds. No other call sets the ctime.
type Times struct {
	Atime, Mtime, Ctime Time
}

// Time is a point in time.
type Time struct{ Sec, Nsec int64 }

// Encode gives the 48 bytes for IocSetTimes.
func (t *Times) Encode() []byte {
	b := make([]byte, 0, 48)
	for _, one := range []Time{t.Atime, t.Mtime, t.Ctime} {
		b = le.AppendUint64(b, uint64(one.Sec))
		b = le.AppendUint64(b, uint64(one.Nsec))
	}
	return b
}

// DecodeTimes is the inverse of Encode.
func DecodeTimes(b []byte) (t Times, err error) {
	if len(b) < 48 {
		return t, malformed("three times in %d bytes: they have 48", len(b))
	}
	for i, one := range []*Time{&t.Atime, &t.Mtime, &t.Ctime} {
		*one = Time{int64(le.Uint64(b[16*i:])), int64(le.Uint64(b[16*i+8:]))}
	}
	return t, nil
}
