-- datamove hooks of Slurm, version 1
--
-- The burst buffers of Slurm, done by datamove: stage-in while a job is pending and onto its nodes before it begins, stage-out when it
-- has ended. It lies beside slurm.conf, with burst_buffer.conf.
--
-- All is said and done by "datamove hook bb PHASE". Lua 5.1 knows of a program only what it prints, which begins with OK or ERROR. Anything
-- else is an error, so that no job begins because something broke.

local datamove = "/usr/local/bin/datamove"

-- Slurm waits for some phases with all that it does. Those have to answer within seconds, whatever happens to the program.
local soon = "/usr/bin/timeout --signal=KILL 8 "

-- most is how much of an answer is read, mostReason of one that becomes the reason of a job, and mostNotes of what is logged beside it.
local most, mostReason, mostNotes = 1048576, 4000, 4000

-- word makes one word of a shell of anything.
local function word(v)
	if type(v) == "number" then
		v = string.format("%d", v) -- not 7.0
	end
	return "'" .. tostring(v):gsub("'", "'\\''") .. "'"
end

-- run runs a phase, and returns what it prints, and what of that is for the log: a shell prints it behind a separator.
local function run(limit, phase, ...)
	local line = "exec 3>&1; notes=$(" .. limit .. datamove .. " hook bb " .. phase
	for i = 1, select("#", ...) do
		line = line .. " " .. word((select(i, ...)))
	end
	local pipe = io.popen(line .. " 2>&1 1>&3 3>&-); printf '\\036%s' \"$notes\"")
	if not pipe then
		return "", "it can not be started"
	end
	local all = pipe:read(most) or ""
	pipe:close()
	local at = all:find("\30", 1, true) or #all + 1
	return all:sub(1, at - 1), all:sub(at + 1, at + mostNotes)
end

-- ask runs a phase, and returns whether it went well, and what it says.
local function ask(limit, phase, ...)
	local said, notes = run(limit, phase, ...)
	local what = phase
	if select("#", ...) > 0 then
		what = phase .. " " .. tostring((...)):gsub("%c", "?")
	end
	if notes ~= "" then
		slurm.log_info("datamove: %s: %s", what, notes)
	end
	local first, rest = said:match("^(%u+)%s(.*)$")
	first = first or said
	if first == "OK" then
		return true, rest or ""
	end
	rest = (rest or ""):sub(1, mostReason):gsub("%s+$", "")
	if first ~= "ERROR" or rest == "" then
		rest = datamove .. " did not answer; the log of slurmctld may have more"
	end
	slurm.log_error("datamove: %s: %s", what, rest)
	return false, rest
end

-- hook is a phase for which a job waits.
local function hook(limit, phase, ...)
	local well, text = ask(limit, phase, ...)
	if well then
		return slurm.SUCCESS, ""
	end
	return slurm.ERROR, text
end

function slurm_bb_job_process(script)
	return hook(soon, "job_process", script)
end

function slurm_bb_setup(job, uid, gid, pool, bytes, script)
	return hook("", "setup", job, uid, gid, script)
end

function slurm_bb_data_in(job, script)
	return hook("", "data_in", job, script)
end

function slurm_bb_paths(job, script, file)
	return hook(soon, "paths", job, script, file)
end

function slurm_bb_pre_run(job, script)
	return hook("", "pre_run", job, script)
end

function slurm_bb_post_run(job, script)
	return hook("", "post_run", job, script)
end

-- From Slurm 23.02 on info says how the job has ended.
function slurm_bb_data_out(job, script, uid, gid, info)
	local state = info and info.job_state
	if type(state) == "number" then
		return hook("", "data_out", job, script, state)
	end
	return hook("", "data_out", job, script)
end

function slurm_bb_job_teardown(job, script, hurry)
	return hook("", "teardown", job, script, hurry)
end

-- Nobody sees the text of a failure here, so it is told as an answer.
function slurm_bb_get_status(...)
	local well, text = ask(soon, "get_status", ...)
	if not well then
		text = "datamove: " .. text .. "\n"
	end
	return slurm.SUCCESS, text
end

-- Slurm asks for pools every 30 seconds, and there are none: what pending jobs hold is renewed then. A failure is in the log, and harms no job now.
function slurm_bb_pools()
	ask("/usr/bin/timeout --signal=KILL 25 ", "pools")
	return slurm.SUCCESS
end

-- What Slurm wants to have, and datamove does not need: data_in and data_out end when all is done.

function slurm_bb_real_size(job)
	return slurm.SUCCESS, ""
end

function slurm_bb_test_data_in(job, script)
	return slurm.SUCCESS, ""
end

function slurm_bb_test_data_out(job, script)
	return slurm.SUCCESS, ""
end
