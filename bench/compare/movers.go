package compare

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// contents names a folder so that its contents are meant.
func contents(j job) string {
	if j.file {
		return j.source
	}
	return j.source + "/"
}

func datamove(program string, j job) command {
	args := []string{program, "copy", "-q"}
	if j.cold {
		args = append(args, "--reflink", "never")
	}
	c := call(append(args, j.source, j.target)...)
	c.env = []string{"XDG_STATE_HOME=" + filepath.Join(j.scratch, "state")}
	if j.store != nil {
		c.env = append(c.env, j.store.environment()...)
	}
	return c
}

func cp(program string, j job) command { return call(program, "-a", j.source, j.target) }

func reflink(program string, j job) command {
	return call(program, "-a", "--reflink=always", j.source, j.target)
}

func rsync(program string, j job) command { return call(program, "-a", contents(j), j.target) }

// rsyncAll keeps and compares all that datamove does: hard links, ACLs and extended attributes, too.
func rsyncAll(program string, j job) command {
	return call(program, "-aHAX", contents(j), j.target)
}

func fpsync(program string, j job) command {
	c := call(program, "-n", strconv.Itoa(runtime.NumCPU()), "-f", "2000", "-t", filepath.Join(j.scratch, "fpsync"), contents(j), j.target+"/")
	c.folder = true
	return c
}

// dcp is of mpiFileUtils: one process for each processor.
func dcp(program string, j job) command {
	return ranks(mpirun(), runtime.NumCPU(), program, "--preserve", j.source, j.target)
}

// find is two bare walks: what a comparison of two trees costs at the least.
func find(_ string, j job) command {
	walk := `find "$0" -printf '%P %y %m %U %G %s %T@\n' >/dev/null && find "$1" -printf '%P %y %m %U %G %s %T@\n' >/dev/null`
	return call("/bin/sh", "-c", walk, j.source, j.target)
}

// wide is how many requests a client has on its way to a store, where its own default is less.
const wide = "32"

func rclone(program string, j job) command {
	args, env := []string{program, "copy"}, []string{"RCLONE_CONFIG=/dev/null"}
	if j.file {
		args[1] = "copyto"
	}
	if j.store == nil {
		return command{args: append(args, j.source, j.target), env: env}
	}
	remote := func(location string) string {
		if path, ok := strings.CutPrefix(location, "s3://"); ok {
			return "store:" + path
		}
		return location
	}
	env = append(env, j.store.environment()...)
	env = append(env, "RCLONE_CONFIG_STORE_TYPE=s3", "RCLONE_CONFIG_STORE_PROVIDER=Other", "RCLONE_CONFIG_STORE_ENV_AUTH=true",
		"RCLONE_CONFIG_STORE_ENDPOINT="+j.store.endpoint)
	args = append(args, "--transfers", wide, "--checkers", wide, "--s3-no-check-bucket")
	return command{args: append(args, remote(j.source), remote(j.target)), env: env}
}

func s5cmd(program string, j job) command {
	args := []string{program, "--endpoint-url", j.store.endpoint, "--log", "error", "cp"}
	c := command{env: j.store.environment()}
	switch {
	case j.file:
		args = append(args, j.source, j.target)
	case j.toStore():
		args = append(args, j.source+"/", j.target+"/")
	default:
		args = append(args, j.source+"/*", j.target+"/")
		c.folder = true
	}
	c.args = args
	return c
}

// juicefs is "juicefs sync", which takes what ends in / for a folder, and minio:// for a store that has buckets as paths.
func juicefs(program string, j job) command {
	end := "/"
	if j.file {
		end = ""
	}
	location := func(at string) string {
		if path, ok := strings.CutPrefix(at, "s3://"); ok {
			return "minio://" + j.store.host() + "/" + path + end
		}
		return at + end
	}
	args := []string{program, "--quiet", "sync"}
	if j.store == nil {
		return call(append(args, "--dirs", "--perms", location(j.source), location(j.target))...)
	}
	c := call(append(args, "--threads", wide, location(j.source), location(j.target))...)
	c.env = []string{"MINIO_ACCESS_KEY=" + accessKey, "MINIO_SECRET_KEY=" + secretKey}
	return c
}
