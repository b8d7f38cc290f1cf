// Package copytool serves Lustre's HSM: it takes the actions that an MDT hands out, and
// moves the content of files to and from an [Archive].
//
// # How
//
// [Tool.Run] registers a pipe with the kernel and reads lists of actions from it. They wait
// in a queue of bounded length; what does not fit waits in the pipe, and behind it at the
// MDT. A few are in work at a time, restores first, because a process waits for each of
// them; one worker is never given to anything else.
//
//	ARCHIVE  open the file by FID; COPY_START; Put; COPY_END
//	RESTORE  make a volatile file with the owner, mode, project and layout of the file;
//	         COPY_START; Get; times; COPY_END, by which the MDT swaps the layouts
//	REMOVE   HSM_PROGRESS, which the MDT refuses for what it has given up; Delete; COPY_END
//	CANCEL   the action of that cookie ends with ECANCELED
//
// # Which content a restore sees
//
// There is one copy of a file, under the key that its FID makes ([Key]), and a new one replaces
// it in one step. A file can be archived again while its old copy is there, and
// no restore of it happens meanwhile. An MDT releases a file only when its data version is the
// one that the last accepted COPY_END of an archive had told. So a copy that was replaced
// when its COPY_END was not accepted (the file was written in the last moment, this process
// was killed) is that of a file which is not released, and which is archived once more
// before it can be. What has to be prevented is the other order: that a copytool which the
// MDT has given up replaces a later copy by an older content. Therefore the archive asks
// right before it replaces a copy ([Copy.Mine]): the MDT then has to know the action still
// (HSM_PROGRESS), and the data version has to be the one of the beginning. An archive that
// can do so replaces nothing but the copy that it saw at the beginning: a store with
// conditional writes, of contents that are one part.
//
// # Promises
//
//   - A file that changes while it is archived ends with EBUSY, and its old copy stays. The
//     MDT is asked to try again, at most three times for one request: a file that is always
//     written would be read for ever.
//   - A copy that is not what was archived is never a file's content: the restore ends with
//     EIO before the MDT hears of the volatile file.
//   - A file that is encrypted by Lustre's clients is refused (EOPNOTSUPP). Its copy would be
//     open to readers of the archive, and a restore is written as another file, with another key.
//   - Memory is bounded by the queue and the number of workers.
//   - When the context ends the registration is taken back; what waits is handed back to the
//     MDT at once (EAGAIN, with the flag that it may be given to another one), what is in work
//     has [Options.Grace] to come to its end.
//   - After kill -9 the next process takes up what was handed out and had not ended, from the
//     start, whatever the policy of the MDT: each action is noted from the time when it is read
//     until its end was told ([Options.Mark]). The registration that was left is taken back.
//     What was in the pipe is not known: of that, and without a mark, the MDT waits for its
//     timeout (hsm.active_request_timeout) and cancels it. An action in which three processes
//     were killed is handed back.
//   - A coordinator that was restarted (hsm_control=shutdown, enabled) has forgotten its
//     copytools, and does not tell them. After ten minutes without a word ([Options.Renew]) the
//     registration is made anew. While other MDTs have something to do it is not.
//
// Whether what is handed back is handed out again is the MDT's to decide: its policy is
// NoRetryAction after its setup, and with that an action that was handed back has failed, and
// the reader that waits for it gets an error (ENODATA). Where copytools are stopped in the
// middle of work:
//
//	lctl set_param -P mdt.*.hsm.policy=-NoRetryAction
//
// # When a file system is lost
//
// Each copy has with it what the file was called (see [Info]), its owner, mode and times. In a
// bucket these are the metadata of the object, those of FSx for Lustre and datamove-path; in
// a directory the facts of the file and the attribute user.datamove.path. From a list of the
// copies of a file system an operator can bring each to its path. A file that was renamed since it
// was archived has its old one. Extended attributes, ACLs, set-id bits and hard links are kept
// by the MDT alone.
//
// # How many at a time
//
// An MDT hands out mdt.*.hsm.max_requests actions, to all copytools together, and gives those
// up of which it has heard nothing for active_request_timeout (an hour). It hears of what
// waits here every five minutes; of what waits in the pipe it does not. So max_requests should
// not be much more than [Options.Waiting] of all nodes. A restore that is behind
// more archives than [Options.Waiting] in the pipe waits for as many of them to end.
//
// A mount has one copytool: an MDT knows them by the client that they are on. Registering needs CAP_SYS_ADMIN. The tests run over a fake MDT with a real pipe and real
// files (package copytest); with LUSTRE_MOUNT on a real Lustre.
package copytool
