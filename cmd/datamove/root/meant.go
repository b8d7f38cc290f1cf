package root

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/manual"
	"datamove.dev/mover/config/spelling"
)

// otherCommands are words of other tools, and what does that here; the name of a command before one makes it a word below that command.
var otherCommands = map[string]string{
	"cp": "datamove copy SRC DST", "copyto": "datamove copy SRC DST", "put": "datamove copy SRC DST", "push": "datamove copy SRC DST", "pull": "datamove copy SRC DST",
	"get":      "datamove copy SRC DST; datamove task list and datamove agent list say what a service has",
	"describe": "datamove task show ID, or datamove dataset show NAME",
	"download": "datamove copy SRC DST", "upload": "datamove copy SRC DST", "scp": "datamove copy SRC DST",
	"mv": moveAnswer, "move": moveAnswer, "moveto": moveAnswer, "rename": moveAnswer,
	"cat": contentAnswer, "head": contentAnswer, "tail": contentAnswer, "pipe": contentAnswer, "rcat": contentAnswer,
	"presign": storeAnswer + "presign", "share": storeAnswer + "presign", "website": storeAnswer + "website",
	"hashsum": sumAnswer, "md5sum": sumAnswer, "sha1sum": sumAnswer, "sha256sum": sumAnswer, "checksum": sumAnswer,
	"rsync": "datamove sync SRC DST; with --delete it removes what the source has not", "mirror": "datamove sync --delete SRC DST",
	"check": "datamove verify SRC DST", "diff": "datamove verify SRC DST", "cmp": "datamove verify SRC DST",
	"mb": bucketAnswer, "rb": bucketAnswer, "mkdir": "datamove copy SRC DST, which makes the folders that it needs",
	"lsd": "datamove ls LOCATION", "lsf": "datamove ls LOCATION", "dir": "datamove ls LOCATION", "stat": "datamove ls LOCATION",
	"lsjson": "datamove ls -o json LOCATION", "lsl": "datamove ls -r LOCATION", "tree": "datamove ls -r LOCATION",
	"dcp": "datamove copy SRC DST", "dsync": "datamove sync --delete SRC DST", "dcmp": "datamove verify SRC DST", "drm": "datamove rm -r LOCATION", "dwalk": "datamove ls -r LOCATION",
	"dfind": "datamove find LOCATION", "bisync": "datamove sync SRC DST, in one direction", "cryptcheck": "datamove verify SRC DST", "run": "datamove copy --files-from FILE SRC DST",
	"backup": "datamove sync SRC DST; datamove service backup FILE writes the records of a service", "restore": "datamove copy SRC DST; datamove checkpoint restore LOCATION brings a checkpoint back",
	"list": "datamove ls LOCATION; datamove task list and datamove dataset list say what a service has", "listremotes": cli.TierList, "alias": "tiers: of datamove config view",
	"sinfo": cli.AgentList, "nodes": cli.AgentList, "sbatch": "datamove copy --detach SRC DST", "whoami": "datamove service info",
	"lfs": "datamove layout show PATH, or datamove quota show PATH", "getstripe": "datamove layout show PATH", "setstripe": "datamove layout set PATH",
	"ncdu": "datamove du LOCATION...", "size": "datamove du LOCATION...", "df": "datamove tier df",
	"delete": "datamove rm LOCATION", "del": "datamove rm LOCATION", "rmdir": "datamove rm -r LOCATION",
	"remove": "datamove rm LOCATION", "deletefile": "datamove rm LOCATION",
	"status": tasksAnswer, "jobs": tasksAnswer, "ps": tasksAnswer, "squeue": tasksAnswer, "top": "datamove task watch ID",
	"log": endedAnswer, "logs": endedAnswer, "history": endedAnswer, "sacct": endedAnswer,
	"cancel": "datamove task cancel ID", "scancel": "datamove task cancel ID", "kill": "datamove task cancel ID", "submit": "datamove copy --detach SRC DST",
	"pause": "datamove task pause ID", "resume": "datamove task resume ID", "wait": "datamove task wait ID", "show": "datamove task show ID",
	"cordon": drainAnswer, "drain": drainAnswer, "uncordon": undrainAnswer, "undrain": undrainAnswer,
	"apply": policiesAnswer, "clone": "datamove copy SRC DST", "transfer": "datamove copy --detach SRC DST", "warmup": "datamove stage DATASET", "fsck": "datamove verify SRC DST",
	"mount":    "datamove stage DATASET, which brings it to a tier: nothing is mounted; for pods the CSI driver does",
	"endpoint": cli.TierList, "ping": "datamove doctor LOCATION", "about": "datamove tier df", "configure": "datamove config init", "init": "datamove config init",

	"task get": taskAnswer, "task describe": taskAnswer, "task status": taskAnswer, "task info": taskAnswer, "task log": taskAnswer, "task logs": taskAnswer,
	"task stop": "datamove task pause ID, or datamove task cancel ID, which ends it", "task hold": "datamove task pause ID", "task suspend": "datamove task pause ID",
	"task kill": "datamove task cancel ID", "task delete": "datamove task cancel ID", "task rm": "datamove task cancel ID", "task remove": "datamove task cancel ID",
	"task start": "datamove task resume ID", "task continue": "datamove task resume ID", "task unhold": "datamove task resume ID",
	"task create": "datamove copy --detach SRC DST", "task submit": "datamove copy --detach SRC DST",
	"agent resume": undrainAnswer, "agent uncordon": undrainAnswer, "agent enable": undrainAnswer, "agent start": undrainAnswer,
	"agent pause": drainAnswer, "agent cordon": drainAnswer, "agent disable": drainAnswer, "agent stop": drainAnswer,
	"agent get": cli.AgentList, "agent show": cli.AgentList, "agent describe": cli.AgentList, "agent status": cli.AgentList,
	"agent add": "datamove agent token", "agent join": "datamove agent token", "agent create": "datamove agent token",
	"agent delete": "datamove agent forget NODE", "agent remove": "datamove agent forget NODE", "agent rm": "datamove agent forget NODE",
	"service status": "datamove service info", "service show": "datamove service info",
	"service start": unitAnswer, "service stop": unitAnswer, "service restart": unitAnswer,
	"policy get": "datamove policy list", "policy show": "datamove policy list", "policy describe": "datamove policy list", "policy status": "datamove policy history",
	"policy test": "datamove policy plan NAME", "policy check": "datamove policy lint FILE", "policy validate": "datamove policy lint FILE",
	"policy apply": policiesAnswer, "policy add": policiesAnswer, "policy create": policiesAnswer, "policy delete": policiesAnswer, "policy edit": policiesAnswer,
	"dataset create": "datamove dataset add NAME LOCATION", "dataset get": "datamove dataset show NAME", "dataset describe": "datamove dataset show NAME",
	"dataset delete": "datamove dataset remove NAME", "dataset rm": "datamove dataset remove NAME", "dataset forget": "datamove dataset remove NAME",
	"lease release": "datamove lease drop ID", "lease delete": "datamove lease drop ID", "lease remove": "datamove lease drop ID", "lease revoke": "datamove lease drop ID",
	"lease add": "datamove stage DATASET, which takes one", "lease create": "datamove stage DATASET, which takes one",
	"tier show": cli.TierList, "tier get": cli.TierList, "tier add": "tiers: of datamove config view", "tier usage": "datamove tier df",
	"checkpoint delete": "datamove checkpoint prune LOCATION", "checkpoint remove": "datamove checkpoint prune LOCATION", "checkpoint rm": "datamove checkpoint prune LOCATION",
	"quota list": "datamove quota show PATH", "quota get": "datamove quota show PATH", "quota report": "datamove quota show PATH",
	"layout get": "datamove layout show PATH", "layout getstripe": "datamove layout show PATH", "layout setstripe": "datamove layout set PATH",
	"config show": "datamove config view", "config get": "datamove config view", "config print": "datamove config view", "config create": "datamove config init",
	"config set": "datamove config view, which names the file; an editor changes it", "config edit": "datamove config view, which names the file; an editor changes it",
	"config test": "datamove config check", "config validate": "datamove config check",
	"completion tcsh": shellsAnswer, "completion csh": shellsAnswer, "completion sh": shellsAnswer, "completion ksh": shellsAnswer,
}

const (
	moveAnswer     = "datamove copy SRC DST, then datamove verify SRC DST, then datamove rm -r SRC: nothing moves in one step"
	contentAnswer  = "datamove copy LOCATION FILE: no content goes through standard input or output"
	sumAnswer      = "datamove verify --write-manifest FILE LOCATION, which writes a checksum of each file"
	storeAnswer    = "the store's own tool: aws s3 "
	tasksAnswer    = "datamove task list"
	endedAnswer    = "datamove task list --all, which has tasks that have ended, too"
	taskAnswer     = "datamove task show ID"
	drainAnswer    = "datamove agent drain NODE"
	undrainAnswer  = "datamove agent undrain NODE"
	unitAnswer     = "systemctl start, stop or restart of datamoved, on its host"
	policiesAnswer = "datamove service reload, after a change of the files in the directory that policies: of the service's configuration names"
	shellsAnswer   = "datamove completion bash, or fish, powershell or zsh: no other shell has one"
	bucketAnswer   = "aws s3 mb or aws s3 rb: buckets are the store's own, and datamove makes and removes none"
)

// otherFlags are options of other tools, and what does that here; the name of a command before one makes it that of the command alone. What begins with
// "no " needs nothing. A command that has an option of the name never asks.
var otherFlags = map[string]string{
	"recursive": foldersAnswer, "r": foldersAnswer, "R": foldersAnswer,
	"archive": keptAnswer, "a": keptAnswer, "p": keptAnswer, "preserve-times": keptAnswer, "times": keptAnswer, "t": keptAnswer, "perms": keptAnswer,
	"owner": keptAnswer, "g": keptAnswer, "group": keptAnswer, "l": keptAnswer, "links": keptAnswer, "H": keptAnswer, "hard-links": keptAnswer,
	"A": keptAnswer, "acls": keptAnswer, "X": keptAnswer, "xattrs": keptAnswer, "S": keptAnswer, "sparse": keptAnswer, "metadata": keptAnswer, "M": keptAnswer,
	"progress": shownAnswer, "P": shownAnswer, "stats": shownAnswer, "partial": onwardAnswer,
	"z": plainAnswer, "compress": plainAnswer, "e": shellAnswer, "rsh": shellAnswer, "W": wholeAnswer, "whole-file": wholeAnswer,
	"exclude-from": "--exclude for each line of the file,", "include-from": "--include for each line of the file,", "filter": "--include and --exclude",
	"max-age": listAnswer, "min-age": listAnswer, "max-size": listAnswer, "min-size": listAnswer, "newer-than": listAnswer, "older-than": listAnswer, "since": listAnswer,
	"no-clobber": presentAnswer, "no-sign-request": "credentials: anonymous of a tier", "threads": "--jobs", "log-file": "2> FILE",
	"verify checksum": "no %s: contents are compared by their checksums", "verify c": "no %s: contents are compared by their checksums", "verify size-only": "no %s: contents are compared by their checksums",
	"inplace": atOnceAnswer, "append": atOnceAnswer, "append-verify": atOnceAnswer, "delay-updates": atOnceAnswer, "partial-dir": onwardAnswer, "temp-dir": onwardAnswer, "continue": onwardAnswer,
	"remove-source-files": moveAnswer, "delete-source": moveAnswer, "delete-excluded": excludedAnswer,
	"itemize-changes": "--verbose", "info": "--verbose", "debug": "--log-level debug", "backup": "--backup-dir", "suffix": "--backup-dir",
	"block-size": partsAnswer, "chunksize": partsAnswer, "bufsize": partsAnswer, "buffer-size": partsAnswer, "part-size": partsAnswer, "s3-chunk-size": partsAnswer,
	"parallel": "--jobs", "s3-upload-concurrency": "--jobs", "multi-thread-streams": "--jobs", "retries": againAnswer, "retry-count": againAnswer, "low-level-retries": againAnswer,
	"no-verify-ssl": authorityAnswer, "no-check-certificate": authorityAnswer, "insecure": authorityAnswer, "sse": "encryption: of a tier", "sse-kms-key-id": "kms_key: of a tier",
	"storage-class": classAnswer, "acl": aclAnswer,
	"only-show-errors": "--quiet", "no-progress": "--quiet", "silent": "--quiet", "follow-symlinks": "--follow", "copy-links": "--follow", "dereference": "--follow",
	"no-follow-symlinks": linksAnswer, "no-dereference": linksAnswer, "d": linksAnswer, "overwrite": newerAnswer, "no-overwrite": presentAnswer, "if-size-differ": "--size-only", "if-source-newer": newerAnswer,
	"exact-timestamps": exactAnswer, "limit-rate": "--bwlimit", "rate": "--bwlimit", "rate-limit": "--bwlimit", "copy watch": afreshAnswer, "sync watch": afreshAnswer, "files-from-raw": "--files-from",
	"u": newerAnswer, "update": newerAnswer, "newer": newerAnswer, "ignore-times": "--again", "ignore-existing": presentAnswer,
	"copy delete": copyAnswer, "copy del": copyAnswer, "copy delete-before": copyAnswer, "copy delete-during": copyAnswer, "copy delete-after": copyAnswer,
	"c": "--checksum", "del": "--delete", "delete-before": "--delete", "delete-during": "--delete", "delete-after": "--delete",
	"j": "--jobs", "transfers": "--jobs", "checkers": "--jobs", "numworkers": "--jobs", "concurrency": "--jobs",
	"f": "--yes", "force": "--yes", "max-bandwidth": "--bwlimit", "limit-upload": "--bwlimit", "json": "--output json", "yaml": "--output yaml",
	"endpoint-url": "AWS_ENDPOINT_URL_S3, or endpoint: of a tier", "profile": "AWS_PROFILE, or credentials: of a tier",
	"region": "AWS_REGION, or region: of a tier", "ca-bundle": authorityAnswer,
	"V": "datamove version", "version": "datamove version",
	"ls l": "no %s: sizes and times are printed", "ls a": "no %s: all names are printed", "du s": "no %s: one total is printed for each location",
	"human-readable": "no %s: sizes are printed for people, and -o json has bytes",
}

const (
	foldersAnswer = "no %s: folders go with all that is below them"
	keptAnswer    = "no %s: modes, times, links, holes and attributes are kept, and owners where that is allowed; --preserve takes less"
	shownAnswer   = "no %s: progress is shown; --quiet turns it off"
	exactAnswer   = "no %s: times are compared exactly"
	newerAnswer   = "no %s: what is equal is left alone, and what differs is replaced, also where the target is newer; --dry-run names it"
	presentAnswer = "no %s: what differs is replaced; --dry-run names it, and --exclude leaves names alone"
	copyAnswer    = "no %s: copy removes nothing; datamove sync --delete SRC DST does"
	plainAnswer   = "no %s: nothing is compressed on the way"
	shellAnswer   = "no %s: no other host is asked; mount it here, or have a service there"
	wholeAnswer   = "no %s: a file that differs is copied whole"
	atOnceAnswer  = "no %s: a file is visible when it is whole, and not before"
	onwardAnswer  = "no %s: the same command goes on where it stopped"
	againAnswer   = "no %s: calls that fail for a reason that passes are tried again"
	partsAnswer   = "no %s: parts grow with the file; --memory bounds the buffers"
	linksAnswer   = "no %s: links in a folder stay links"

	afreshAnswer = "no %s: the same command again brings what is new"
	classAnswer  = "no %s: objects keep their class from S3 to S3, and others get the usual one of the store"
	aclAnswer    = "no %s: objects have the ACL that the store gives them"

	excludedAnswer  = "no %s: excluded names are left alone on both sides"
	authorityAnswer = "AWS_CA_BUNDLE, or ca: of a tier"
	listAnswer      = "--files-from with what find(1) lists, relative to SRC,"
)

// carrying are the answers for commands that bring or compare data.
var carrying = []string{foldersAnswer, shownAnswer, plainAnswer, shellAnswer, wholeAnswer, atOnceAnswer, onwardAnswer, againAnswer, linksAnswer, classAnswer, aclAnswer, excludedAnswer}

// meant is what to try after a mistake in the words of a command line: the answer to a word of another tool, or the nearest of ours.
func meant(cmd *cobra.Command, err error, args []string) string {
	var flag *pflag.NotExistError
	var word string
	var answer, near string
	switch _, read := fmt.Sscanf(err.Error(), "unknown command %q for", &word); { // cobra has no type for it
	case errors.As(err, &flag) && flag.GetSpecifiedShortnames() != "":
		answer = meantLetters(cmd, flag.GetSpecifiedShortnames())
	case errors.As(err, &flag):
		answer, near = meantFlag(cmd, flag.GetSpecifiedName())
	case read == nil && cmd.HasSubCommands():
		answer, near = meantCommand(cmd, word)
		answer = strings.Join(append([]string{answer}, meantOptions(cmd.Root(), answer, args)...), "; ")
	}
	return cmp.Or(near, answer, cmd.CommandPath()+" --help")
}

// meantOptions are the answers to the options that stand behind a command of another tool, for the command of ours that does it.
func meantOptions(root *cobra.Command, answer string, args []string) (answers []string) {
	words := strings.Fields(answer)
	if len(words) < 2 || words[0] != root.Name() {
		return nil
	}
	ours, _, err := root.Find(words[1:2])
	if err != nil {
		return nil
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case arg == "--":
			return answers
		case name == "":
		case strings.HasPrefix(arg, "--") && ours.Flags().Lookup(name) == nil:
			said, near := meantFlag(ours, name)
			answers = append(answers, cmp.Or(said, near))
		case strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--"):
			answers = append(answers, meantLetters(ours, name))
		}
	}
	return slices.DeleteFunc(answers, func(s string) bool { return s == "" })
}

// meantCommand is the answer to a command of another tool, or else the nearest one of ours.
func meantCommand(parent *cobra.Command, word string) (answer, near string) {
	others := map[string]string{}
	for key, answer := range otherCommands {
		if above, below, is := strings.Cut(key, " "); is && above == parent.Name() && parent.HasParent() {
			others[below] = answer
		} else if !is && !parent.HasParent() {
			others[key] = answer
		}
	}
	if answer = others[word]; answer != "" {
		return answer, ""
	}
	if at := elsewhere(parent, word); len(at) > 0 {
		return "", strings.Join(at, " or ") + "; " + helpOf(parent.Root())
	}
	for _, above := range []*cobra.Command{parent, parent.Root()} {
		if near = nearest(word, namesBelow(above)); near != "" {
			return "", above.CommandPath() + " " + near + "; " + helpOf(above)
		}
	}
	return nearAnswer(word, others), ""
}

func namesBelow(cmd *cobra.Command) (names []string) {
	for _, c := range manual.Below(cmd) {
		names = append(names, c.Name())
	}
	return names
}

// helpOf says where all words of a command are listed.
func helpOf(cmd *cobra.Command) string { return cmd.CommandPath() + " --help lists all" }

// elsewhere finds the commands that have a word as their name at another place of the tree: those of the root for a command below it, and for the root those below others.
// Where there are more than mostPlaces the word names none of them.
func elsewhere(parent *cobra.Command, word string) (found []string) {
	above := []*cobra.Command{parent.Root()}
	if !parent.HasParent() {
		above = manual.Below(parent)
	}
	for _, c := range above {
		if slices.Contains(namesBelow(c), word) {
			found = append(found, c.CommandPath()+" "+word)
		}
	}
	if len(found) > mostPlaces {
		return nil
	}
	return found
}

const mostPlaces = 3

// nearAnswer is the answer to the word of another tool that is spelled most like one that is not known; "" is none.
func nearAnswer(word string, answers map[string]string) string {
	var long []string // the others are near to everything
	for _, w := range slices.Sorted(maps.Keys(answers)) {
		if len(w) >= 4 && answers[w] != "" {
			long = append(long, w)
		}
	}
	return answers[spelling.Nearest(word, long)]
}

// meantLetters answers for those letters of one word that the command has not.
func meantLetters(cmd *cobra.Command, letters string) string {
	var answers []string
	whose := map[string]string{}
	for letter := range strings.SplitSeq(letters, "") {
		answer := answerTo(cmd, letter)
		if answer == "" || cmd.Flags().ShorthandLookup(letter) != nil {
			continue
		}
		if whose[answer] == "" {
			answers = append(answers, answer)
			whose[answer] = "-"
		}
		whose[answer] += letter
	}
	for i, answer := range answers {
		answers[i] = worded(answer, whose[answer])
	}
	return strings.Join(answers, "; ")
}

// meantFlag is the answer to a long option of another tool, or else the nearest one of the command.
func meantFlag(cmd *cobra.Command, name string) (answer, near string) {
	if answer = answerTo(cmd, name); answer != "" {
		return worded(answer, "--"+name), ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near = nearest(name, names); near != "" {
		return "", "--" + near + "; " + helpOf(cmd)
	}
	others := map[string]string{}
	for key := range otherFlags {
		other := strings.TrimPrefix(key, cmd.Name()+" ")
		others[other] = answerTo(cmd, other)
	}
	if answer = nearAnswer(name, others); answer != "" {
		answer = worded(answer, "--"+name)
	}
	return answer, ""
}

func worded(answer, flag string) string {
	if strings.HasPrefix(answer, "no ") {
		return fmt.Sprintf(answer, flag)
	}
	return answer + " in place of " + flag
}

// answerTo is the answer to an option that the command does not have; "" where it does not hold for that command.
func answerTo(cmd *cobra.Command, name string) string {
	if own := otherFlags[cmd.Name()+" "+name]; own != "" {
		return own
	}
	answer := otherFlags[name]
	if slices.Contains(carrying, answer) && cmd.Flags().Lookup("jobs") == nil {
		return ""
	}
	for word := range strings.FieldsSeq(answer) {
		if option, is := strings.CutPrefix(word, "--"); is && cmd.Flags().Lookup(option) == nil {
			return ""
		}
	}
	return answer
}

// nearest is the one name that begins so, or else the one that is spelled most like it; "" is none.
func nearest(word string, names []string) string {
	var begin []string
	for _, name := range names {
		if len(word) > 1 && strings.HasPrefix(name, word) {
			begin = append(begin, name)
		}
	}
	if len(begin) == 1 {
		return begin[0]
	}
	return spelling.Nearest(word, names)
}

// helpCommand shows the help of a command, and says of a word that is none what may be meant.
func helpCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Print what a command does", Example: "  datamove help task list",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if about, _, err := cmd.Root().Find(args); err == nil {
				for _, c := range about.Commands() {
					if c.IsAvailableCommand() {
						names = append(names, c.Name()+"\t"+c.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 && about.HasSubCommands() {
				err = fmt.Errorf("unknown command %q for %q", rest[0], about.CommandPath())
			}
			if err != nil {
				return cli.Advise(err, meant(about, err, nil))
			}
			return about.Help()
		},
	}
}
